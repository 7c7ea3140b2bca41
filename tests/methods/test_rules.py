"""The rules by hand, on tensors small enough to see."""

from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor, nn

from adalin.methods import Method, Now, Rule
from adalin.methods._l2 import L2
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb
from adalin.structure import Network, Part


class Small(Network):
    """A layer's weights and its biases, and an alpha."""

    def __init__(self) -> None:
        self.model = nn.Identity()
        values = {"weight": [1.0, -2.0, 4.0, 0.0], "bias": [0.5, -8.0], "alpha": [0.25]}
        self.parts = [
            Part(name, torch.tensor(value), torch.ones(len(value)), name != "alpha") for name, value in values.items()
        ]

    def named(self, values: Sequence[Tensor]) -> Mapping[str, Tensor]:
        return dict(zip(("weight", "bias", "alpha"), values, strict=True))

    def numbers(self) -> list[list[float]]:
        return [part.value.tolist() for part in self.parts]


def fresh() -> list[Tensor]:
    return [torch.tensor([10.0, 20.0, 0.0, -40.0]), torch.tensor([100.0, 0.0])]


def never() -> list[Tensor]:
    raise AssertionError("this rule has no use for a fresh network")


def now(task: int = 1, draw=never) -> Now:
    return Now(task=task, step=0, steps=0, lr=0.5, fresh=draw)


def after_all_hooks(rule: Rule, moment: Now) -> Small:
    net = Small()
    for hook in (rule.start_task, rule.before_step, rule.after_step, rule.end_task):
        hook(net, moment)
    return net


def test_l2_adds_strength_times_weights_and_biases_to_their_gradient_and_does_nothing_else() -> None:
    net = after_all_hooks(L2(strength=0.2), now())
    assert net.numbers() == Small().numbers()
    weight, bias, alpha = (part.grad for part in net.parts)
    assert weight.tolist() == pytest.approx([1.2, 0.6, 1.8, 1.0])
    assert bias.tolist() == pytest.approx([1.1, -0.6])
    assert alpha.tolist() == [1.0]
    assert L2(strength=0.2).decay == 0.2


def test_shrink_and_perturb_shrinks_and_adds_a_little_of_a_fresh_network_after_every_step() -> None:
    net = Small()
    ShrinkPerturb(shrink=0.5, noise=0.1).after_step(net, now(draw=fresh))
    weight, bias, alpha = net.numbers()
    assert weight == pytest.approx([0.5 + 1, -1 + 2, 2 + 0, 0 - 4])
    assert bias == pytest.approx([0.25 + 10, -4 + 0])
    assert alpha == [0.25]
    assert ShrinkPerturb().period == 1


def test_shrink_and_perturb_per_task_acts_at_the_start_of_each_task_but_the_first() -> None:
    rule = ShrinkPerturb(shrink=0.5, noise=0.1, every="task")
    assert rule.period is None
    for task, expected in ((0, [1.0, -2.0, 4.0, 0.0]), (1, [1.5, 1.0, 2.0, -4.0]), (7, [1.5, 1.0, 2.0, -4.0])):
        assert after_all_hooks(rule, now(task, fresh)).numbers()[0] == pytest.approx(expected)


def test_shrink_and_perturb_per_step_leaves_the_start_of_a_task_alone() -> None:
    net = Small()
    ShrinkPerturb().start_task(net, now())
    assert net.numbers() == Small().numbers()


def test_the_papers_strengths_are_the_defaults() -> None:
    assert L2().strength == 0.01
    assert (ShrinkPerturb().shrink, ShrinkPerturb().noise, ShrinkPerturb().every) == (1 - 1e-4, 1e-2, "step")


def test_scratch_asks_for_a_new_network_in_every_task_but_the_first_and_does_nothing_else() -> None:
    assert [Scratch().restarts(task) for task in range(4)] == [False, True, True, True]
    assert not any(rule.restarts(1) for rule in (L2(), ShrinkPerturb()))
    assert after_all_hooks(Scratch(), now()).numbers() == Small().numbers()
    assert Scratch().period is None


def test_rules_act_in_the_order_in_which_they_are_written() -> None:
    assert [rule.name for rule in Method.parse("scratch+l2").rules] == ["scratch", "l2"]
    assert [rule.name for rule in Method.parse("l2+adalin+scratch").rules] == ["l2", "scratch"]
