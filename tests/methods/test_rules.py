"""The rules by hand, on tensors small enough to see."""

import pytest
import torch
from torch import Tensor

from adalin.methods import Fresh, Method, Rule
from adalin.methods._l2 import L2
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb
from adalin.models import make_model
from adalin.training import Run
from adalin.training._fresh import FreshUniform, FreshWeights
from adalin.training._mlp_stack import MLPStack
from adalin.training._stack import Trainee
from synthetic_data import synthetic


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


def test_the_new_networks_of_scratch_differ_from_task_to_task_and_from_seed_to_seed_only() -> None:
    data = synthetic("mnist")

    def first_weight(seed: int, task: int, method: str = "scratch") -> Tensor:
        run = Run.define("permuted-mnist", method, seed, data)
        return run.make_model(run.make_stream(data), "init", task)[1].weight

    assert torch.equal(first_weight(3, 1), first_weight(3, 1))
    assert torch.equal(first_weight(3, 1), first_weight(3, 1, "tanh+scratch"))
    assert not torch.equal(first_weight(3, 1), first_weight(3, 2))
    assert not torch.equal(first_weight(3, 1), first_weight(4, 1))


def test_rules_act_in_the_order_in_which_they_are_written() -> None:
    assert [rule.name for rule in Method.parse("scratch+l2").rules] == ["scratch", "l2"]
    assert [rule.name for rule in Method.parse("l2+adalin+scratch").rules] == ["l2", "scratch"]


def test_fresh_weights_have_the_distribution_of_a_new_network_and_none_of_its_alphas() -> None:
    model = make_model("mlp", (50,), 10, Method.parse("adalin").activation)
    drawn = FreshWeights(Trainee(model, seed=3, lr=0.1))
    first = [tensor.clone() for tensor in drawn("step", 0, 0)]
    assert [tensor.shape for tensor in first] == [(100, 50), (100,), (100, 100), (100,), (10, 100), (10,)]
    assert first[0].abs().max().item() == pytest.approx(50**-0.5, rel=1e-2)  # uniform up to 1 / sqrt(inputs)
    assert first[0].std().item() == pytest.approx((50 * 3) ** -0.5, rel=5e-2)
    again, other = ([tensor.clone() for tensor in drawn("step", 0, step)] for step in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_fresh_weights_of_stacks_have_the_distribution_of_a_new_network_too() -> None:
    model = make_model("mlp", (50,), 10, Method.parse("adalin").activation)
    fresh = FreshUniform(Trainee(model, seed=3, lr=0.1))
    shapes = [(50, 100), (100,), (2, 50, 100), (100,), (100, 10), (10,)]

    def drawn(*purpose: str | int) -> list[Tensor]:
        places = [torch.empty(shape) for shape in shapes]
        fresh.write(places, *purpose)
        return places

    first, again, other = (drawn("step", 0, step) for step in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    many = [drawn("step", 1, step) for step in range(100)]
    for index, inputs in enumerate([50, 50, 100, 100, 100, 100]):
        values = torch.stack([one[index] for one in many]).double().flatten() * inputs**0.5  # uniform in (-1, 1)
        assert values.abs().max() < 1
        # Four standard errors of the mean, of the mean square, and of the share below each of nine quantiles.
        error = 4 / len(values) ** 0.5
        assert abs(values.mean()) < error * 3**-0.5
        assert abs(values.square().mean() - 1 / 3) < error * (4 / 45) ** 0.5
        for tenth in range(1, 10):
            assert abs((values < tenth / 5 - 1).double().mean() - tenth / 10) < error / 2
        # Neighbours, and the same weight in the next draw, are not correlated.
        assert abs((values[1:] * values[:-1]).mean()) < error / 3
        assert abs((values[first[index].numel() :] * values[: -first[index].numel()]).mean()) < 1.1 * error / 3


def test_drawing_fresh_weights_leaves_the_network_that_is_trained_alone() -> None:
    model = make_model("mlp", (5,), 2, Method().activation)
    before = [parameter.clone() for parameter in model.parameters()]
    FreshWeights(Trainee(model, seed=3, lr=0.1))("step", 0, 0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_runs_with_the_same_rule_of_other_strengths_share_a_stack_in_order() -> None:
    trainees = [
        Trainee(make_model("mlp", (5,), 2, Method().activation), seed, 0.1, Method.parse(method).rules)
        for seed, method in enumerate(["l2:strength=0.1", "l2", "scratch", "l2"])
    ]
    ordered = sorted(trainees, key=lambda one: (one.recipe, one.seed))
    assert [one.rules for one in ordered] == [(L2(),), (L2(),), (L2(strength=0.1),), (Scratch(),)]
    assert MLPStack(ordered).model(2) is trainees[0].model
