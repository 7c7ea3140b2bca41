"""Training with and without a monitor gives the same weights, optimiser and random state, to the bit."""

import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import adalin


class Attention(nn.Module):
    """A small vision transformer: patches, one of torch's encoder layers with dropout, a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 16))
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        return self.head(self.encoder(x)[:, 0])


class Residual(nn.Module):
    """Two convolutions with batch norm around a sum, and functional activations that work in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.norm2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)), inplace=True)
        x = F.relu_(x + self.norm2(self.second(x)))
        return self.head(F.dropout(x.mean((2, 3)), 0.2, self.training))


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)
    )


MODELS = {"MLP": mlp, "ResNet": Residual, "ViT": Attention}


def numbers(model, optimizer):
    states = [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    ]
    return [*model.state_dict().values(), *states, torch.get_rng_state(), torch.rand(3), torch.tensor(random.random())]


def assert_same(a, b):
    assert len(a) == len(b)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def make(build):
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    model = build()
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def train(model, optimizer, steps, call=None):
    for _ in range(steps):
        x, y = torch.randn(16, 1, 8, 8), torch.randint(3, (16,))
        loss = F.cross_entropy((call or model)(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", MODELS)
def test_looks_and_probes_change_no_bit_of_training(name):
    results = []
    for watched in (False, True):
        model, optimizer = make(MODELS[name])
        monitor = adalin.Monitor(model, every=7) if watched else None
        train(model, optimizer, 15)
        if monitor is not None:
            monitor.probe(steps=10)
            assert f"step {monitor.looks[-1].step}" in str(monitor)
        train(model, optimizer, 15)
        results.append(numbers(model, optimizer))
        if monitor is not None:
            assert [look.step for look in monitor.looks] == [0, 7, 14, 21, 28]
            assert all(len(look.layers) == {"MLP": 1, "ResNet": 2, "ViT": 1}[name] for look in monitor.looks)
    assert_same(*results)


def test_the_automatic_cadence_changes_no_bit_either():
    results = []
    for watched in (False, True):
        model, optimizer = make(mlp)
        monitor = adalin.Monitor(model, budget=0.5) if watched else None
        train(model, optimizer, 150)
        results.append(numbers(model, optimizer))
    assert monitor is not None
    assert len(monitor.looks) > 1
    assert_same(*results)


def test_a_compiled_network_trains_the_same_and_is_seen():
    results = []
    for watched in (False, True):
        torch._dynamo.reset()
        model, optimizer = make(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 3)))
        compiled = torch.compile(model, backend="aot_eager")
        monitor = adalin.Monitor(compiled, every=5) if watched else None
        train(model, optimizer, 12, compiled)
        results.append(numbers(model, optimizer))
    assert monitor is not None
    assert [(look.step, list(look.layers)) for look in monitor.looks] == [(0, ["1"]), (5, ["1"]), (10, ["1"])]
    assert_same(*results)


def test_a_monitor_from_before_compilation_says_what_it_does_not_see():
    torch._dynamo.reset()
    model, optimizer = make(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 3)))
    monitor = adalin.Monitor(model, every=5)
    compiled = torch.compile(model, backend="aot_eager")
    with pytest.warns(UserWarning, match="watch what torch.compile returned") as caught:
        train(model, optimizer, 6, compiled)
    assert len(caught) == 1
    assert monitor.looks[-1].weights
    assert monitor.verdict().state == "no probe"


def test_a_killed_and_resumed_training_is_the_same_with_monitors():
    model, optimizer = make(mlp)
    train(model, optimizer, 20)
    whole = numbers(model, optimizer)

    model, optimizer = make(mlp)
    monitor = adalin.Monitor(model, every=3)
    train(model, optimizer, 9)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    del monitor
    model, optimizer = make(mlp)
    monitor = adalin.Monitor(model, every=4)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    torch.set_rng_state(saved[2])
    train(model, optimizer, 11)
    assert_same(whole, numbers(model, optimizer))
    assert "reset_parameters" in monitor.probe(steps=5).origin  # its first weights were not new


class Actor(nn.Module):
    """An actor whose forward training never calls, as in Stable-Baselines3."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.mean, self.scale = nn.Linear(32, 2), nn.Linear(32, 2)

    def sample(self, states):
        latent = self.latent(states)
        action = self.mean(latent) + torch.randn(len(states), 2) * self.scale(latent).clamp(-5, 2).exp()
        return torch.tanh(action), action.square().mean(1)

    def forward(self, states):
        raise AssertionError("training does not call it")


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, states, *, actions):
        return {"value": self.layers(torch.cat([states, actions], 1))}


def train_agent(actor, critics, optimizers, targets, steps):
    for _ in range(steps):
        states, actions = torch.randn(32, 4), torch.rand(32, 2)
        with torch.no_grad():
            later, entropy = actor.sample(states)
            value = targets(states, actions=later)["value"][:, 0] - 0.1 * entropy
        losses = [(critic(states, actions=actions)["value"][:, 0] - value).square().mean() for critic in critics]
        optimizers[1].zero_grad()
        sum(losses).backward()
        optimizers[1].step()
        now, entropy = actor.sample(states)
        optimizers[0].zero_grad()
        (0.1 * entropy - critics[0](states, actions=now)["value"][:, 0]).mean().backward()
        optimizers[0].step()


def test_an_agent_of_an_actor_without_forward_and_two_critics_trains_the_same():
    results = []
    for watched in (False, True):
        torch.manual_seed(2)
        random.seed(2)
        actor, critics = Actor(), [Critic(), Critic()]
        parameters = [p for critic in critics for p in critic.parameters()]
        optimizers = [torch.optim.Adam(actor.parameters()), torch.optim.Adam(parameters)]
        networks = {"actor": actor, "qf1": critics[0], "qf2": critics[1]}
        monitor = adalin.Monitor(networks, every=10) if watched else None
        targets = copy.deepcopy(critics[0])
        train_agent(actor, critics, optimizers, targets, 25)
        results.append([*numbers(actor, optimizers[0]), *numbers(critics[0], optimizers[1])])
    assert monitor is not None
    seen = {name: [look for look in monitor.looks if look.network == name] for name in networks}
    assert all([look.step for look in looks] == [0, 10, 20] for looks in seen.values())
    assert list(seen["actor"][-1].layers) == ["latent.0", "latent.2"]
    assert list(seen["qf2"][-1].layers) == ["layers.0"]
    assert_same(*results)
    assert monitor.probe("actor", steps=20).aged
    assert set(monitor.verdict(probe=False).networks) == set(networks)
