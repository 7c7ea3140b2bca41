"""The rules by hand, on tensors small enough to see."""

import pytest
import torch
from torch import Tensor

from adalin.methods import Fresh, Method, Rule
from adalin.methods._l2 import L2
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb


def weights() -> list[Tensor]:
    """Of two runs: a layer's weights and its biases."""
    return [torch.tensor([[[1.0, -2.0]], [[4.0, 0.0]]]), torch.tensor([[[0.5]], [[-8.0]]])]


def fresh() -> list[Tensor]:
    return [torch.tensor([[[10.0, 20.0]], [[0.0, -40.0]]]), torch.tensor([[[100.0]], [[0.0]]])]


def never() -> list[Tensor]:
    raise AssertionError("this rule has no use for a fresh network")


def values(tensors: list[Tensor]) -> list[list[float]]:
    return [pytest.approx(tensor.flatten().tolist()) for tensor in tensors]


def all_hooks(rule: Rule, draw: Fresh, *, task: int) -> list[Tensor]:
    given = weights()
    rule.start_task(given, draw, task)
    rule.before_update(given, 0.5)
    rule.after_update(given, draw)
    return given


def test_l2_takes_lr_times_strength_of_weights_and_biases_before_the_update() -> None:
    given = weights()
    L2(strength=0.2).before_update(given, lr=0.5)  # times 1 - 0.5 * 0.2
    assert [tensor.flatten().tolist() for tensor in given] == values([0.9 * tensor for tensor in weights()])


def test_l2_is_sgds_weight_decay() -> None:
    start, gradient = torch.tensor([1.0, -3.0]), torch.tensor([0.25, 4.0])
    theirs = torch.nn.Parameter(start.clone())
    theirs.grad = gradient
    torch.optim.SGD([theirs], lr=0.1, weight_decay=0.01).step()
    ours = start.clone()
    L2().before_update([ours], lr=0.1)
    ours -= 0.1 * gradient
    torch.testing.assert_close(ours, theirs.data)


def test_l2_does_nothing_at_other_times() -> None:
    given = weights()
    L2(strength=0.2).start_task(given, never, 1)
    L2(strength=0.2).after_update(given, never)
    assert [tensor.tolist() for tensor in given] == [tensor.tolist() for tensor in weights()]


def test_shrink_and_perturb_shrinks_and_adds_a_little_of_a_fresh_network_after_every_step() -> None:
    given = weights()
    ShrinkPerturb(shrink=0.5, noise=0.1).after_update(given, fresh)
    assert given[0].flatten().tolist() == pytest.approx([0.5 + 1, -1 + 2, 2 + 0, 0 - 4])
    assert given[1].flatten().tolist() == pytest.approx([0.25 + 10, -4 + 0])


def test_shrink_and_perturb_per_task_acts_at_the_start_of_each_task_but_the_first() -> None:
    rule = ShrinkPerturb(shrink=0.5, noise=0.1, every="task")
    for task, expected in ((0, [1.0, -2.0, 4.0, 0.0]), (1, [1.5, 1.0, 2.0, -4.0]), (7, [1.5, 1.0, 2.0, -4.0])):
        assert all_hooks(rule, fresh, task=task)[0].flatten().tolist() == pytest.approx(expected)


def test_shrink_and_perturb_per_step_leaves_the_start_of_a_task_alone() -> None:
    given = weights()
    ShrinkPerturb().start_task(given, never, 1)
    assert [tensor.tolist() for tensor in given] == [tensor.tolist() for tensor in weights()]


def test_the_papers_strengths_are_the_defaults() -> None:
    assert L2().strength == 0.01
    assert (ShrinkPerturb().shrink, ShrinkPerturb().noise, ShrinkPerturb().every) == (1 - 1e-4, 1e-2, "step")


def test_scratch_asks_for_a_new_network_in_every_task_but_the_first_and_does_nothing_else() -> None:
    assert [Scratch().restarts(task) for task in range(4)] == [False, True, True, True]
    assert not any(rule.restarts(1) for rule in (L2(), ShrinkPerturb()))
    assert [tensor.tolist() for tensor in all_hooks(Scratch(), never, task=1)] == [t.tolist() for t in weights()]


def test_rules_act_in_the_order_in_which_they_are_written() -> None:
    assert [rule.name for rule in Method.parse("scratch+l2").rules] == ["scratch", "l2"]
    assert [rule.name for rule in Method.parse("l2+adalin+scratch").rules] == ["l2", "scratch"]
