"""The monitor inside of other libraries' loops: it sees what it should, and their training is the same to the bit."""

import warnings

import pytest
import torch
from torch import nn

import torchvision_schemas
from adalin.monitor import Monitor, huggingface_callback, lightning_callback, sb3_callback

torchvision_schemas.declare()


def parameters(model):
    return [value.clone() for value in model.state_dict().values()]


def assert_same(one, other):
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def small_agent(name):
    sb3 = pytest.importorskip("stable_baselines3")
    options = {"policy_kwargs": {"net_arch": [32, 32]}, "seed": 1, "device": "cpu"}
    if name == "PPO":
        return sb3.PPO("MlpPolicy", "Pendulum-v1", n_steps=64, batch_size=32, n_epochs=4, **options)
    if name == "DQN":
        return sb3.DQN("MlpPolicy", "CartPole-v1", learning_starts=40, train_freq=1, batch_size=32, **options)
    return getattr(sb3, name)("MlpPolicy", "Pendulum-v1", learning_starts=40, batch_size=32, **options)


@pytest.mark.parametrize(
    ("name", "networks"),
    [
        ("SAC", {"actor": ["latent_pi.0", "latent_pi.2"], "critic0": ["0", "2"], "critic1": ["0", "2"]}),
        ("DQN", {"q_net": ["q_net.0", "q_net.2"]}),
        ("PPO", {"policy": ["mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2"]}),
    ],
)
def test_an_agent_of_stable_baselines3_is_watched_and_learns_the_same(name, networks):
    results = []
    for watched in (False, True):
        agent = small_agent(name)
        callback = sb3_callback(every=5, samples=64) if watched else None
        agent.learn(100, callback=callback)
        results.append(parameters(agent.policy))
    monitor = callback.monitor
    for network, layers in networks.items():
        looks = [look for look in monitor.looks if look.network == network]
        assert len(looks) >= 3
        assert list(looks[-1].layers)[: len(layers)] == layers
        assert looks[-1].overall["gradient"] > 0
    assert monitor.probe(next(iter(networks)), steps=10).aged
    assert_same(*results)


def test_a_lightning_module_is_watched_and_learns_the_same():
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2))
            self.head = nn.Linear(16, 3)

        def training_step(self, batch, index):
            return nn.functional.cross_entropy(self.head(self.body(batch[0])), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    data = torch.utils.data.TensorDataset(torch.randn(128, 8), torch.randint(3, (128,)))
    results = []
    for watched in (False, True):
        torch.manual_seed(0)
        module, callback = Module(), lightning_callback(every=5)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(
                max_epochs=2,
                accelerator="cpu",
                callbacks=[callback] if watched else [],
                enable_model_summary=False,
                **quiet,
            )
            trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=16, shuffle=True))
        results.append(parameters(module))
    steps = [look.step for look in callback.monitor.looks if look.network == "body"]
    assert steps == [1, 6, 11, 16]
    assert list(callback.monitor.looks[-2].layers) == ["0"]
    assert not module.body._forward_pre_hooks
    assert callback.monitor.probe("body", steps=10).origin == "its first weights, permuted"
    assert_same(*results)


def test_the_trainer_of_hugging_face_is_watched_and_learns_the_same(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
    words = torch.randint(50, (64, 12), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "labels": int(row.sum()) % 3} for row in words]
    results = []
    for watched in (False, True):
        torch.manual_seed(0)
        model, callback = transformers.BertForSequenceClassification(config), huggingface_callback(every=5)
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=8, num_train_epochs=2, report_to=[], use_cpu=True,
            save_strategy="no", disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transformers.Trainer(model, arguments, train_dataset=data, callbacks=[callback] if watched else []).train()
        results.append(parameters(model))
    monitor = callback.monitor
    assert [look.step for look in monitor.looks] == [0, 5, 10, 15]
    names = list(monitor.looks[-1].layers)
    assert [name for name in names if "intermediate" in name] == [
        f"bert.encoder.layer.{i}.intermediate.dense" for i in range(2)
    ]
    assert monitor.verdict(probe=False).state == "no probe"
    assert len(monitor.probe(steps=10, draws=1).aged) == 1
    assert_same(*results)


def test_a_network_of_timm_is_seen():
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", depth=2, img_size=32, patch_size=8, num_classes=4)
    monitor, optimizer = Monitor(model, every=2), torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3, 32, 32)).sum().backward()
        optimizer.step()
    look = monitor.looks[-1]
    assert {name: numbers["units"] for name, numbers in look.layers.items()} == {
        f"blocks.{i}.mlp.fc1": 768 for i in range(2)
    }
