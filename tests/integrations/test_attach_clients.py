"""Rules attached to models and loops of other libraries: they train, get new units, are saved and resumed."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import adalin
import torchvision_schemas
from adalin.methods import ContinualBackprop, L2Init, ReDo

torchvision_schemas.declare()

pytestmark = pytest.mark.filterwarnings("ignore")  # other libraries warn of each other
RULES = ReDo(every=2, tau=0.9) + L2Init(1e-3)


def numbers(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().double().flatten() for value in model.state_dict().values()])


# timm


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet10t", {"num_classes": 4}),
        (
            "vit_tiny_patch16_224",
            {"num_classes": 4, "img_size": 32, "depth": 2, "embed_dim": 24, "num_heads": 2},
        ),
    ],
)
def test_networks_of_timm_resume_to_the_bit(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="the integrations extra is not installed")

    def begin() -> tuple[nn.Module, Any, Any]:
        torch.manual_seed(0)
        model = timm.create_model(name, **options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return model, optimizer, adalin.attach(model, optimizer, RULES)

    def train(model: nn.Module, optimizer: Any, first: int, last: int) -> None:
        for step in range(first, last):
            x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            F.cross_entropy(model(x), torch.arange(4)).backward()
            optimizer.step()

    model, optimizer, remedies = begin()
    train(model, optimizer, 0, 3)
    state = copy.deepcopy([model.state_dict(), optimizer.state_dict(), remedies.state_dict()])
    train(model, optimizer, 3, 5)
    torch.save(state, tmp_path / "state.pt")
    others = begin()
    for own, saved in zip(others, torch.load(tmp_path / "state.pt"), strict=True):
        own.load_state_dict(saved)
    train(others[0], others[1], 3, 5)
    assert torch.equal(numbers(model), numbers(others[0]))
    plain = begin()
    plain[2].remove()
    train(plain[0], plain[1], 0, 5)
    assert not torch.equal(numbers(model), numbers(plain[0]))


# Stable-Baselines3


def test_an_agent_of_stable_baselines3_has_new_units_in_actor_critics_and_targets() -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="the integrations extra is not installed")
    from stable_baselines3.common.callbacks import BaseCallback

    class Remedies(BaseCallback):  # type: ignore[misc]
        """Attaches rules to the networks of an agent when it begins to learn."""

        def _on_training_start(self) -> None:
            policy = self.model.policy
            critics = zip(policy.critic.q_networks, policy.critic_target.q_networks, strict=True)
            self.attached = [
                adalin.attach(critic, policy.critic.optimizer, ReDo(every=5, tau=0.9), targets=[target], seed=number)
                for number, (critic, target) in enumerate(critics)
            ]
            self.attached.append(adalin.attach(policy.actor.latent_pi, policy.actor.optimizer, L2Init(1e-3)))

        def _on_step(self) -> bool:
            return True

    callback = Remedies()
    options = {"learning_starts": 10, "batch_size": 8, "buffer_size": 200}
    network = {"net_arch": [12, 12]}
    agent = sb3.SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=network, seed=0, device="cpu", **options)
    agent.learn(15, callback=callback)
    assert [remedies.steps for remedies in callback.attached] == [5, 5, 5]
    critics, targets = agent.policy.critic.q_networks, agent.policy.critic_target.q_networks
    for critic, target in zip(critics, targets, strict=True):
        new = (critic[4].weight == 0).all(0)  # what reads new units is 0 right after a reset
        assert new.any()
        assert not critic[2].bias[new].any()
        assert not target[2].bias[new].any()
    before = [remedies.state_dict() for remedies in callback.attached]
    for remedies, state in zip(callback.attached, before, strict=True):
        remedies.load_state_dict(state)


def test_two_critics_of_one_optimiser_may_have_rules_that_set_the_same() -> None:
    first, second = (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(2))
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    for model in (first, second):
        adalin.attach(model, optimizer, ReDo(every=1, tau=1e9))
    x = torch.rand(5, 3)
    (first(x) - second(x)).square().sum().backward()
    optimizer.step()
    assert not first[2].weight.any()
    assert not second[2].weight.any()


# Lightning


def test_a_lightning_module_saves_its_rules_in_its_checkpoint(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="the integrations extra is not installed")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

        def training_step(self, batch: Any, index: int) -> Tensor:
            x, y = batch
            return F.cross_entropy(self.net(x), y)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
            self.remedies = adalin.attach(self.net, optimizer, ContinualBackprop(rate=0.1, maturity=2) + L2Init(0.1))
            return optimizer

        def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            checkpoint["remedies"] = self.remedies.state_dict()

        def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.saved = checkpoint["remedies"]

        def on_train_start(self) -> None:
            if hasattr(self, "saved"):
                self.remedies.load_state_dict(self.saved)

    generator = torch.Generator().manual_seed(0)
    data = torch.utils.data.TensorDataset(
        torch.rand(32, 6, generator=generator), torch.randint(3, (32,), generator=generator)
    )
    loader = torch.utils.data.DataLoader(data, batch_size=8)

    def fit(epochs: int, checkpoint: Path | None = None) -> Any:
        torch.manual_seed(0)
        module = Module()
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=False if checkpoint else None)
        trainer.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return module

    whole = fit(4)
    fit(2)
    resumed = fit(4, tmp_path / "2.ckpt")
    assert whole.remedies.steps == resumed.remedies.steps == 16
    assert torch.equal(numbers(whole), numbers(resumed))


# transformers


def test_a_trainer_of_transformers_trains_with_rules(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="the integrations extra is not installed")
    pytest.importorskip("accelerate", reason="the integrations extra is not installed")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    config = transformers.BertConfig(vocab_size=30, max_position_embeddings=16, num_labels=2, **sizes)
    model = transformers.BertForSequenceClassification(config)
    rows = [{"input_ids": torch.randint(30, (8,)), "labels": torch.tensor(index % 2)} for index in range(16)]
    arguments = transformers.TrainingArguments(
        tmp_path, per_device_train_batch_size=4, num_train_epochs=1, report_to=[], save_strategy="no", use_cpu=True
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    remedies = adalin.attach(model, optimizer, ReDo(every=4, tau=1e9))
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    transformers.Trainer(model, arguments, train_dataset=rows, optimizers=(optimizer, constant)).train()
    assert remedies.steps == 4
    assert not model.bert.encoder.layer[0].output.dense.weight.any()  # what read the units that became new


# CleanRL's style


def test_a_loop_in_cleanrls_style_with_one_optimiser_for_two_critics() -> None:
    class SoftQNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2, self.fc3 = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, x: Tensor, a: Tensor) -> Tensor:
            x = F.relu(self.fc1(torch.cat([x, a], 1)))
            return self.fc3(F.relu(self.fc2(x)))

    torch.manual_seed(0)
    critics = [SoftQNetwork() for _ in range(2)]
    targets = [copy.deepcopy(critic) for critic in critics]
    optimizer = torch.optim.Adam([own for critic in critics for own in critic.parameters()], lr=1e-3)
    for number, (critic, target) in enumerate(zip(critics, targets, strict=True)):
        adalin.attach(critic, optimizer, ReDo(every=3, tau=0.9), targets=[target], seed=number)
    for _ in range(3):
        x, a, y = torch.rand(32, 3), torch.rand(32, 1), torch.rand(32, 1)
        loss = sum(F.mse_loss(critic(x, a), y) for critic in critics)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for critic, target in zip(critics, targets, strict=True):
            for own, slow in zip(critic.parameters(), target.parameters(), strict=True):
                slow.data.lerp_(own.data, 0.005)
    for critic, target in zip(critics, targets, strict=True):
        new = (critic.fc3.weight == 0).all(0)
        assert new.any()
        torch.testing.assert_close(critic.fc2.bias[new], target.fc2.bias[new])
