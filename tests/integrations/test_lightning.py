"""convert inside Lightning's modules and torchrl's, from the first step to the resumed one."""

import warnings

import pytest
import torch
from torch import nn

import torchvision_schemas
from adalin import AdaLin, convert, param_groups

torchvision_schemas.declare()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning", reason="the integrations extra is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # advice of Lightning on loaders and loggers


class InInit(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
        convert(self.net)

    def training_step(self, batch, index):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(param_groups(self, weight_decay=0.1), lr=0.01)


class InConfigureModel(InInit):
    def __init__(self) -> None:
        lightning.LightningModule.__init__(self)
        self.net = None

    def configure_model(self) -> None:
        if self.net is None:
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
        convert(self.net)


def batches():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(12, 6, generator=generator)
    return torch.utils.data.DataLoader(list(zip(inputs, [0, 1] * 6, strict=True)), batch_size=4)


def trainer(folder, epochs: int):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return lightning.Trainer(max_epochs=epochs, enable_checkpointing=False, default_root_dir=folder, **quiet)


@pytest.mark.parametrize("make", [InInit, InConfigureModel])
def test_alphas_are_trained_saved_and_resumed_to_the_bit(make, tmp_path) -> None:
    whole = make()
    trainer(tmp_path, 2).fit(whole, batches())
    assert isinstance(whole.net[1], AdaLin)

    half = make()
    first = trainer(tmp_path, 1)
    first.fit(half, batches())
    first.save_checkpoint(tmp_path / "half.ckpt")
    (optimizer,) = first.optimizers
    assert any(p is half.net[1].alpha for group in optimizer.param_groups for p in group["params"])
    resumed = make()
    trainer(tmp_path, 2).fit(resumed, batches(), ckpt_path=tmp_path / "half.ckpt", weights_only=False)
    assert not torch.equal(half.net[1].alpha, whole.net[1].alpha)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name


def test_torchrls_modules_are_converted_and_trained() -> None:
    modules = pytest.importorskip("torchrl.modules")
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule

    from adalin.structure import find_units

    torch.manual_seed(0)
    net = modules.MLP(in_features=4, out_features=2, num_cells=[16, 16], activation_class=nn.Tanh)
    policy = TensorDictModule(net, in_keys=["observation"], out_keys=["action"])
    observations = TensorDict({"observation": torch.randn(5, 4)}, [5])
    before = policy(observations.clone())["action"]
    conversion = convert(policy, init=0.0)
    assert [site.name for site in conversion.sites] == ["module.1", "module.3"]
    after = policy(observations.clone())["action"]
    assert torch.equal(after, before)
    after.sum().backward()
    assert all(module.alpha.grad.any() for module in policy.modules() if isinstance(module, AdaLin))
    layers = find_units(policy, call=lambda m: m(observations.clone())["action"])
    assert [(layer.width, layer.entangled) for layer in layers] == [(16, ""), (16, "")]
