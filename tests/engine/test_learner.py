"""A learner, step by step, against a loop written by hand, in float64; and what it leaves to engines."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.engine import Gram, Learner, Learning, ModuleNet, Net, Steps, Update
from adalin.engine._fresh import FreshWeights
from adalin.engine._module_net import weights_of
from adalin.methods import Method, Now, Rule
from adalin.models import make_model
from adalin.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from adalin.streams import Task
from adalin.structure import Network
from by_hand import Loop
from method_texts import METHODS

IMAGES, FEATURES, BATCH, LR, EPOCHS = 40, 20, 16, 0.02, 2
PER_EPOCH = 3
OPTIMIZERS: list[Optimizer] = [
    SGD(),
    SGD(weight_decay=0.1),
    SGD(momentum=0.9, nesterov=True, weight_decay=0.01),
    Adam(weight_decay=0.01, schedule="linear"),
    AdamW(),
    RMSprop(momentum=0.5, schedule="cosine"),
]
BY_HAND = {"l2", "l2-init", "shrink-perturb", "scratch", "redo", "cbp"}
"""Rules that the loop by hand knows; the others' tests are in tests/methods/test_remedies.py."""
PLAIN_METHODS = [
    text
    for text in METHODS
    if Method.parse(text).optimizer == SGD() and {rule.name for rule in Method.parse(text).rules} <= BY_HAND
]


def network(method: str, task: int = 0, model: str = "mlp") -> nn.Module:
    torch.manual_seed(task)
    shape = (FEATURES,) if model == "mlp" else (3, 16, 16)
    return make_model(model, shape, 10, Method.parse(method).activation).double()


def data(seed: int, *shape: int) -> Task:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(IMAGES, *(shape or (FEATURES,)), generator=generator, dtype=torch.float64)
    return Task(inputs, torch.randint(10, (IMAGES,), generator=generator))


def learner(method: str, optimizer: Optimizer | None = None, *, net: Net | None = None, **options: Any) -> Learner:
    parsed = Method.parse(method)
    learning = Learning(lr=LR, batch_size=BATCH, seed=3, **{"rules": parsed.rules, **options})
    own = net or ModuleNet(network(method))
    new_model = lambda task: network(method, task)  # noqa: E731
    return Learner(own, optimizer or parsed.optimizer, learning, new_model=new_model)


def orders(task: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 + task)
    return [torch.randperm(IMAGES, generator=generator) for _ in range(EPOCHS)]


def train_task(own: Learner, task: int, given: Task | None = None) -> Steps:
    own.start_task(task, given or data(task), EPOCHS * PER_EPOCH)
    made = []
    for epoch, order in enumerate(orders(task)):
        done = 0
        while done < PER_EPOCH:
            made.append(own.train(order[done * BATCH :], epoch * PER_EPOCH + done))
            done += len(made[-1])
            if made[-1].diverged:
                return Steps.joined(made)
    own.end_task(EPOCHS * PER_EPOCH)
    return Steps.joined(made)


class ByHand:
    """The textbook loop: a loss, backward, torch's optimiser; rules as their papers write them."""

    def __init__(self, method: str, optimizer: Optimizer) -> None:
        self.method, self.optimizer = method, optimizer
        self.rules = {rule.name: rule for rule in Method.parse(method).rules}
        self.start(0)

    def start(self, task: int) -> None:
        self.model = network(self.method, task)
        weights = weights_of(self.model)
        others = [own for own in self.model.parameters() if not any(own is weight for weight in weights)]
        options: dict[str, Any] = {**vars(self.optimizer), "lr": LR}
        del options["schedule"]
        if "beta1" in options:
            options["betas"] = (options.pop("beta1"), options.pop("beta2"))
        groups = [{"params": weights}, *([{"params": others, "weight_decay": 0.0}] if others else [])]
        kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        self.torchs = kinds.get(self.optimizer.name, torch.optim.RMSprop)(groups, **options)
        self.loop = Loop(self.model, list(self.rules.values()), 3)

    def train_task(self, task: int) -> list[float]:
        if task and "scratch" in self.rules:
            self.start(task)
        if task:
            self.perturb("start_task", task, 0)
        given, losses = data(task), []
        for epoch, order in enumerate(orders(task)):
            for group in self.torchs.param_groups:
                group["lr"] = LR * self.optimizer.lr_factor(epoch, EPOCHS)
            for number, rows in enumerate(order.split(BATCH)):
                loss = F.cross_entropy(self.model(given.inputs[rows]), given.labels[rows])
                losses.append(loss.item())
                if l2 := self.rules.get("l2"):
                    loss = loss + l2.strength / 2 * sum(weight.square().sum() for weight in weights_of(self.model))
                self.torchs.zero_grad()
                loss.backward()
                self.loop.gradients()
                self.torchs.step()
                self.loop.after(self.torchs, task, epoch * PER_EPOCH + number)
                self.perturb("after_step", task, epoch * PER_EPOCH + number)
        return losses

    @torch.no_grad()
    def perturb(self, hook: str, task: int, step: int) -> None:
        rule = self.rules.get("shrink-perturb")
        if rule is not None and hook.endswith(rule.every):
            fresh = FreshWeights(ModuleNet(deepcopy(self.model)), 3).draw(hook, task, step)
            for weight, new in zip(weights_of(self.model), fresh, strict=True):
                weight.copy_(rule.shrink * weight + rule.noise * new)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("method", [*PLAIN_METHODS, "shrink-perturb:every=task"])
def test_every_method_with_every_optimiser_learns_as_a_loop_by_hand(method: str, optimizer: Optimizer) -> None:
    own, by_hand = learner(method, optimizer), ByHand(method, optimizer)
    for task in (0, 1):
        made, losses = train_task(own, task), by_hand.train_task(task)
        assert made.losses.tolist() == pytest.approx(losses, rel=1e-9, abs=1e-11)
        expected = by_hand.model.state_dict()
        for name, value in own.net.model.state_dict().items():
            torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-10, msg=lambda t, n=name: f"{n}: {t}")


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("method", ["adalin", "crelu+l2", "shrink-perturb", "scratch"])
@pytest.mark.parametrize("stop", [1, 4])
def test_a_restored_learner_goes_on_to_the_same_bits(method: str, optimizer: Optimizer, stop: int) -> None:
    whole, first, second = (learner(method, optimizer) for _ in range(3))
    order = torch.cat(orders(1))
    for one in (whole, first):
        train_task(one, 0)
        one.start_task(1, data(1), EPOCHS * PER_EPOCH)

    def go(one: Learner, steps: Sequence[int]) -> None:
        for step in steps:
            epoch, done = divmod(step, PER_EPOCH)
            rows = orders(1)[epoch][done * BATCH : (done + 1) * BATCH]
            assert len(one.train(rows, step)) == 1

    assert len(order) == EPOCHS * IMAGES
    go(whole, range(6))
    go(first, range(stop))
    state = {name: value.clone() for name, value in first.state().items()}
    go(first, range(stop, 6))  # a state is a copy
    second.restore(state)
    second.start_task(1, data(1), EPOCHS * PER_EPOCH, resumed=True)
    go(second, range(stop, 6))
    for one in (first, second):
        assert one.state().keys() == whole.state().keys()
        for name, value in one.state().items():
            assert torch.equal(value, whole.state()[name]), name


def test_a_state_goes_by_the_names_of_parameters_whatever_the_engine_keeps() -> None:
    own = learner("adam+adalin")
    train_task(own, 0)
    assert own.state()["optimizer.step"] == 6
    assert own.state()["steps"] == 6
    names = {
        f"{kind}.{name}" for kind in ("network", "optimizer.exp_avg", "optimizer.exp_avg_sq") for name in own.net.params
    }
    assert own.state().keys() == names | {"steps", "optimizer.step"}


# rules


@dataclass(frozen=True)
class Noted(Rule):
    """Notes when it was called, and with what."""

    name = "noted"
    every: int = 1
    calls: list[tuple[Any, ...]] = None  # type: ignore[assignment]

    @property
    def period(self) -> int | None:
        return self.every

    def start_task(self, net: Network, now: Now) -> None:
        self.calls.append(("start", now.task, now.steps))

    def before_step(self, net: Network, now: Now) -> None:
        self.calls.append(("before", now.task, now.step, now.steps, net.grads["1.bias"].clone()))

    def after_step(self, net: Network, now: Now) -> None:
        self.calls.append(("after", now.task, now.step, now.steps, net.params["1.bias"].clone()))

    def end_task(self, net: Network, now: Now) -> None:
        self.calls.append(("end", now.task, now.step, now.steps))


@pytest.mark.parametrize(("every", "expected"), [(1, range(12)), (4, [3, 7, 11]), (5, [4, 9]), (100, [])])
def test_a_rule_acts_at_its_period_over_all_tasks_and_sees_gradients_and_weights(
    every: int, expected: Sequence[int]
) -> None:
    calls: list[tuple[Any, ...]] = []
    own = learner("adalin", rules=(Noted(every=every, calls=calls),))
    for task in (0, 1):
        train_task(own, task)
    assert [call for call in calls if call[0] in ("start", "end")] == [
        ("start", 0, 0),
        ("end", 0, 6, 6),
        ("start", 1, 6),
        ("end", 1, 6, 12),
    ]
    before, after = ([call for call in calls if call[0] == name] for name in ("before", "after"))
    assert [call[3] for call in before] == list(expected)
    assert [call[3] - 1 for call in after] == list(expected)
    assert [call[1] * 6 + call[2] for call in before] == list(expected) == [call[1] * 6 + call[2] for call in after]
    assert all(call[4].any() for call in before)


def test_what_a_rule_does_to_gradients_reaches_the_weights() -> None:
    @dataclass(frozen=True)
    class Double(Rule):
        name = "double"

        def before_step(self, net: Network, now: Now) -> None:
            for part in net.parts:
                part.grad.mul_(2)

    doubled, faster = learner("adalin", rules=(Double(),)), learner("adalin")
    faster.learning = replace(faster.learning, lr=2 * LR)
    for one in (doubled, faster):
        train_task(one, 0)
    for own, expected in zip(doubled.net.params.values(), faster.net.params.values(), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_a_rule_never_sees_the_optimisers_decay_but_that_of_rules(optimizer: Optimizer) -> None:
    calls: list[tuple[Any, ...]] = []
    own = learner("l2:strength=100", optimizer, rules=(*Method.parse("l2:strength=100").rules, Noted(calls=calls)))
    weight = own.net.params["1.bias"].clone()
    train_task(own, 0)
    first = next(call for call in calls if call[0] == "before")
    torch.testing.assert_close(first[4], 100 * weight, rtol=0.2, atol=1.0)


# engines


class Counted(ModuleNet):
    """Notes how many steps it was asked for in each call, and whether it got a Gram matrix."""

    engine = "native"

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.calls: list[int] = []
        self.updates: list[Update] = []
        self.grams: list[Gram | None] = []

    def start_task(self, task: int, data: Task, gram: Gram | None = None) -> None:
        self.grams.append(gram)
        super().start_task(task, data)

    def train_steps(self, order: Tensor, batch_size: int, first_step: int, update: Update) -> Steps:
        self.calls.append(-(-len(order) // batch_size))
        self.updates.append(update)
        return super().train_steps(order, batch_size, first_step, update)


@pytest.mark.parametrize(
    ("method", "calls"),
    [
        *((method, [3, 3]) for method in ("adalin", "adalin+l2", "adam+l2", "scratch", "shrink-perturb:every=task")),
        ("shrink-perturb", [1] * 6),
        ("adamw+l2", []),
    ],
)
def test_an_engine_runs_until_a_rule_must_act(method: str, calls: list[int]) -> None:
    net = Counted(network(method))
    train_task(learner(method, net=net), 0)
    assert net.calls == calls


@pytest.mark.parametrize(("every", "calls"), [(2, [1, 1, 1, 1, 1, 1]), (4, [3, 1, 2]), (100, [3, 3])])
def test_an_engine_runs_on_between_the_steps_in_which_a_rule_acts(every: int, calls: list[int]) -> None:
    @dataclass(frozen=True)
    class Seldom(Rule):
        name = "seldom"

        @property
        def period(self) -> int | None:
            return every

        def after_step(self, net: Network, now: Now) -> None:
            pass

    net = Counted(network("adalin"))
    train_task(learner("adalin", net=net, rules=(Seldom(),)), 0)
    assert net.calls == calls


def test_l2_of_plain_sgd_is_a_factor_of_weights_and_of_others_their_decay() -> None:
    for method, shrink, decay in (
        ("l2:strength=0.5", 1 - LR * 0.5, 0.0),
        ("sgd:weight_decay=0.25+l2:strength=0.5", 1 - LR * 0.75, 0.0),
        ("adam:weight_decay=0.25+l2:strength=0.5", 1.0, 0.75),
    ):
        net = Counted(network(method))
        train_task(learner(method, net=net), 0)
        assert (net.updates[0].shrink, net.updates[0].optimizer.weight_decay) == (shrink, decay), method


@pytest.mark.parametrize(
    ("method", "options", "allowed"),
    [
        *((method, {}, True) for method in ("adalin", "l2", "scratch", "shrink-perturb:every=task", "crelu+l2")),
        ("sgd:weight_decay=0.1+adalin", {}, True),
        ("shrink-perturb", {}, False),
        ("sgd:momentum=0.9", {}, False),
        *((method, {}, False) for method in ("adam", "adamw", "rmsprop")),
        ("adalin", {"clip": 1.0}, False),
        ("adalin", {"rules": (Noted(every=1000, calls=[]),)}, False),
    ],
)
def test_a_first_layer_is_trained_by_its_outputs_only_where_weights_are_scaled_and_moved(
    method: str, options: dict[str, Any], allowed: bool
) -> None:
    net, gram = Counted(network(method)), Gram(torch.zeros(1), torch.zeros(1))
    own = learner(method, net=net, **options)
    own._gram = lambda: gram
    own.start_task(0, data(0), 6)
    assert net.grams == [gram if allowed else None]
    assert own.learns_by_outputs == allowed


def test_pieces_do_not_change_what_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = learner("adam+adalin+shrink-perturb")
    made = train_task(expected, 0)
    monkeypatch.setattr("adalin.engine._learner.FIRST_CALL", 1)
    monkeypatch.setattr("adalin.engine._learner.CALL_SECONDS", 0.0)
    own = learner("adam+adalin+shrink-perturb")
    pieces = train_task(own, 0)
    assert torch.equal(made.correct, pieces.correct)
    assert torch.equal(made.losses, pieces.losses)
    assert all(torch.equal(value, expected.state()[name]) for name, value in own.state().items())


def test_learning_ends_before_the_first_step_whose_outputs_are_not_finite() -> None:
    broken, healthy = learner("adam+adalin+l2"), learner("adam+adalin+l2")
    first, second = orders(0)
    for one in (broken, healthy):
        one.start_task(0, data(0), EPOCHS * PER_EPOCH)
        assert len(one.train(first, 0)) == 3
    given = data(0)
    given.inputs[second[20]] = torch.nan  # in the second batch
    broken.net.start_task(0, given)
    made = broken.train(second, 3)
    assert (len(made), made.diverged) == (1, True)
    healthy.train(second[:BATCH], 3)
    assert all(torch.equal(value, healthy.state()[name]) for name, value in broken.state().items())
