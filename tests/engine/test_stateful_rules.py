"""Rules that remember: the laboratory against a loop written by hand, after every step, in both engines."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import adalin
from adalin.engine import Learner, Learning, ModuleNet, NativeNet, Net
from adalin.methods import ContinualBackprop, Method, Rules
from adalin.models import mlp
from adalin.streams import Task
from by_hand import Loop
from double_kernels import double_kernels

IMAGES, FEATURES, BATCH, LR, STEPS, SEED = 24, 7, 8, 0.05, 10, 3
NETWORKS = [
    *(f"{optimizer}+{own}" for optimizer in ("sgd", "adam") for own in ("relu", "crelu", "adalin-tanh")),
    *("adam+layernorm+relu", "sgd+layernorm+adalin-tanh", "sgd:momentum=0.9+adalin-tanh", "adam+rmsnorm+crelu"),
]
"""Optimisers with what hidden layers do."""
RULES = [
    "l2-init:strength=0.1",
    "redo:every=2,tau=0.6",
    "redo:every=2,tau=0.6,variant=kleinredo",
    "redo:every=3,tau=0.6,variant=kumar2023",
    "cbp:rate=0.1,maturity=2",
    "cbp:rate=0.1,maturity=2,utility=adaptable,correct=true",
    "l2-init+cbp:rate=0.1,maturity=3,correct=true",
]
ENGINES: dict[str, Callable[[nn.Module], Net]] = {
    "module": ModuleNet,
    "native": lambda model: NativeNet(model, double_kernels()),
}


def network(method: str, task: int = 0) -> nn.Module:
    torch.manual_seed(task)
    return mlp(FEATURES, 4, Method.parse(method).activation, hidden=(9, 6)).double()


def data() -> Task:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.rand(IMAGES, FEATURES, generator=generator, dtype=torch.float64)
    return Task(inputs, torch.randint(4, (IMAGES,), generator=generator))


def order(epoch: int) -> Tensor:
    return torch.randperm(IMAGES, generator=torch.Generator().manual_seed(epoch))


def learner(method: str, engine: str = "module") -> Learner:
    parsed = Method.parse(method)
    learning = Learning(lr=LR, batch_size=BATCH, rules=parsed.rules, seed=SEED)
    net = ENGINES[engine](network(method))
    return Learner(net, parsed.optimizer, learning, new_model=lambda task: network(method, task))


def steps(own: Learner, first: int, last: int) -> None:
    per_epoch = IMAGES // BATCH
    for step in range(first, last):
        epoch, done = divmod(step, per_epoch)
        assert len(own.train(order(epoch)[done * BATCH : (done + 1) * BATCH], step)) == 1


def train(own: Learner) -> list[dict[str, Tensor]]:
    """The parameters after every step."""
    own.start_task(0, data(), STEPS)
    found = []
    for step in range(STEPS):
        steps(own, step, step + 1)
        found.append({name: value.detach().clone() for name, value in own.net.params.items()})
    return found


def by_hand(method: str) -> tuple[list[dict[str, Tensor]], int]:
    """The parameters after every step of a plain loop, and how many units it replaced."""
    model, parsed = network(method), Method.parse(method)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    momentum = {"momentum": 0.9} if "momentum" in method else {}
    optimizer = kinds[parsed.optimizer.name](model.parameters(), lr=LR, **momentum)
    loop, given, found = Loop(model, parsed.rules, SEED), data(), []
    for step in range(STEPS):
        epoch, done = divmod(step, IMAGES // BATCH)
        rows = order(epoch)[done * BATCH : (done + 1) * BATCH]
        optimizer.zero_grad()
        F.cross_entropy(model(given.inputs[rows]), given.labels[rows]).backward()
        loop.gradients()
        optimizer.step()
        loop.after(optimizer, 0, step)
        found.append({name: value.detach().clone() for name, value in model.named_parameters()})
    return found, loop.replaced


def attached(method: str) -> list[dict[str, Tensor]]:
    """The parameters after every step of a free loop with rules attached to it."""
    model, parsed = network(method), Method.parse(method)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    momentum = {"momentum": 0.9} if "momentum" in method else {}
    optimizer = kinds[parsed.optimizer.name](model.parameters(), lr=LR, **momentum)
    remedies = adalin.attach(model, optimizer, Rules(parsed.rules), seed=SEED)
    given, found = data(), []
    for step in range(STEPS):
        epoch, done = divmod(step, IMAGES // BATCH)
        rows = order(epoch)[done * BATCH : (done + 1) * BATCH]
        optimizer.zero_grad()
        F.cross_entropy(model(given.inputs[rows]), given.labels[rows]).backward()
        optimizer.step()
        found.append({name: value.detach().clone() for name, value in model.named_parameters()})
    assert remedies.steps == STEPS
    return found


def is_native(method: str) -> bool:
    return "kleinredo" not in method and "rmsnorm" not in method


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_learner_and_attached_rules_do_what_a_loop_by_hand_does_after_every_step(network: str, rule: str) -> None:
    method = f"{network}+{rule}"
    expected, replaced = by_hand(method)
    assert replaced > 0 or rule.startswith("l2-init:")
    trained = [train(learner(method, engine)) for engine in ENGINES if engine == "module" or is_native(method)]
    for found in (*trained, attached(method)):
        for own, wanted in zip(found, expected, strict=True):
            for name, value in own.items():
                torch.testing.assert_close(value, wanted[name], rtol=0, atol=1e-10, msg=lambda t, n=name: f"{n}: {t}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", RULES)
def test_a_restored_learner_has_the_memory_of_its_rules(rule: str, engine: str) -> None:
    method = f"adam+layernorm+adalin-tanh+{rule}"
    if engine == "native" and not is_native(method):
        return
    whole, second = learner(method, engine), learner(method, engine)
    whole.start_task(0, data(), STEPS)
    steps(whole, 0, 5)
    state = deepcopy(whole.state())
    steps(whole, 5, STEPS)
    second.restore(state)
    second.start_task(0, data(), STEPS, resumed=True)
    steps(second, 5, STEPS)
    assert second.state().keys() == whole.state().keys()
    for name, value in second.state().items():
        assert torch.equal(value, whole.state()[name]), name


def test_the_memory_of_a_rule_has_the_same_names_in_both_engines() -> None:
    method = "adam+adalin-tanh+l2-init+cbp"
    names = [learner(method, engine).state().keys() for engine in ENGINES]
    assert names[0] == names[1]
    assert {"rules.cbp.age.2", "rules.l2-init.initial.1.weight", "rules.l2-init.initial.2.alpha"} <= names[0]


def test_a_new_network_for_a_task_has_rules_that_remember_nothing() -> None:
    own = learner("scratch+l2-init+cbp:rate=0.1,maturity=2")
    train(own)
    own.end_task(STEPS)
    own.start_task(1, data(), STEPS)
    state, fresh = own.state(), network("relu", 1)
    assert not state["rules.cbp.age.2"].any()
    assert torch.equal(state["rules.l2-init.initial.1.weight"], fresh.state_dict()["1.weight"])


def test_continual_backprop_counts_what_is_due_to_the_unit() -> None:
    rule = ContinualBackprop(rate=0.1, maturity=2)
    own = learner("cbp:rate=0.1,maturity=2")
    own.start_task(0, data(), STEPS)
    due = 0.0
    ages = [0] * 9
    for step in range(STEPS):
        steps(own, step, step + 1)
        ages = [age + 1 for age in ages]
        due += rule.rate * sum(age > rule.maturity for age in ages)
        count = int(due)
        due -= count
        state = own.state()
        assert state["rules.cbp.due.2"].item() == pytest.approx(due)
        young = (state["rules.cbp.age.2"] == 0).nonzero().flatten().tolist()
        assert len(young) == count
        for unit in young:
            ages[unit] = 0
        assert state["rules.cbp.age.2"].tolist() == ages
