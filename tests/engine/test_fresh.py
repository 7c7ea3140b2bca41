"""Newly initialised weights, for rules that ask for them in every step, and the order of networks with rules."""

import pytest
import torch
from torch import Tensor

from adalin.engine import MLPStack, NetworkSpec
from adalin.engine._fresh import FreshUniform, FreshWeights
from adalin.methods import Method
from adalin.models import make_model


def test_fresh_weights_have_the_distribution_of_a_new_network_and_none_of_its_alphas() -> None:
    model = make_model("mlp", (50,), 10, Method.parse("adalin").activation)
    drawn = FreshWeights(NetworkSpec(model, seed=3, lr=0.1))
    first = [tensor.clone() for tensor in drawn("step", 0, 0)]
    assert [tensor.shape for tensor in first] == [(100, 50), (100,), (100, 100), (100,), (10, 100), (10,)]
    assert first[0].abs().max().item() == pytest.approx(50**-0.5, rel=1e-2)  # uniform up to 1 / sqrt(inputs)
    assert first[0].std().item() == pytest.approx((50 * 3) ** -0.5, rel=5e-2)
    again, other = ([tensor.clone() for tensor in drawn("step", 0, step)] for step in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_fresh_weights_of_stacks_have_the_distribution_of_a_new_network_too() -> None:
    model = make_model("mlp", (50,), 10, Method.parse("adalin").activation)
    fresh = FreshUniform(NetworkSpec(model, seed=3, lr=0.1))
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
        # Uniform in (-1, 1).
        values = torch.stack([weights[index] for weights in many]).double().flatten() * inputs**0.5
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
    FreshWeights(NetworkSpec(model, seed=3, lr=0.1))("step", 0, 0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_runs_with_the_same_rule_of_other_strengths_share_a_stack_in_order() -> None:
    specs = [
        NetworkSpec(make_model("mlp", (5,), 2, Method().activation), seed, 0.1, Method.parse(method).rules)
        for seed, method in enumerate(["l2:strength=0.1", "l2", "scratch", "l2"])
    ]
    ordered = sorted(specs, key=lambda spec: (spec.recipe, spec.seed))
    assert [spec.rules for spec in ordered] == [
        Method.parse(method).rules for method in ("l2", "l2", "l2:strength=0.1", "scratch")
    ]
    assert MLPStack(ordered).model(2) is specs[0].model
