"""Newly initialised weights, for rules that ask for them in every step."""

import pytest
import torch
from torch import Tensor

from adalin import native
from adalin.engine import ModuleNet, NativeNet
from adalin.engine._fresh import FreshWeights
from adalin.methods import Method
from adalin.models import make_model

SHAPES = [(100, 50), (100,), (100, 100), (100,), (10, 100), (10,)]


def mlp(method: str = "adalin") -> ModuleNet:
    return ModuleNet(make_model("mlp", (50,), 10, Method.parse(method).activation))


def drawn(fresh: FreshWeights, hook: str, task: int, step: int) -> list[Tensor]:
    return [tensor.clone() for tensor in fresh.draw(hook, task, step)]


@pytest.mark.parametrize("init", ["default", "he-normal"])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_fresh_weights_are_drawn_for_one_purpose(model: str, init: str) -> None:
    shape = (50,) if model == "mlp" else (3, 16, 16)
    net = ModuleNet(make_model(model, shape, 10, Method.parse("adalin").activation))
    fresh = FreshWeights(net, 3, init)
    first, again, other = (drawn(fresh, "after_step", 0, step) for step in (0, 0, 1))
    assert [tensor.shape for tensor in first] == [part.value.shape for part in net.weights]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True) if a.any())
    assert not torch.equal(first[0], drawn(FreshWeights(net, 4, init), "after_step", 0, 0)[0])


def test_those_of_other_networks_are_what_the_initialiser_draws() -> None:
    net = ModuleNet(make_model("cnn", (3, 16, 16), 10, Method.parse("adalin").activation))
    first, *_ = drawn(FreshWeights(net, 3), "after_step", 0, 0)
    assert first.abs().max().item() == pytest.approx(75**-0.5, rel=1e-2)  # uniform up to 1 / sqrt(inputs)
    assert first.std().item() == pytest.approx((75 * 3) ** -0.5, rel=5e-2)
    normal, *_ = drawn(FreshWeights(net, 3, "he-normal"), "after_step", 0, 0)
    assert normal.std().item() == pytest.approx((2 / 75) ** 0.5, rel=5e-2)


def test_those_of_linear_layers_have_torchs_default_distribution() -> None:
    fresh = FreshWeights(mlp(), 3)
    assert [tensor.shape for tensor in drawn(fresh, "after_step", 0, 0)] == SHAPES
    many = [drawn(fresh, "after_step", 1, step) for step in range(100)]
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
        count = many[0][index].numel()
        assert abs((values[count:] * values[:-count]).mean()) < 1.1 * error / 3


def test_drawing_fresh_weights_leaves_the_network_that_is_trained_alone() -> None:
    for init in ("default", "he-normal"):
        net = mlp()
        before = [part.value.clone() for part in net.parts]
        FreshWeights(net, 3, init).draw("after_step", 0, 0)
        assert all(torch.equal(a, part.value) for a, part in zip(before, net.parts, strict=True))


@pytest.mark.skipif(native.isa() is None, reason="no native kernels here")
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_those_of_a_native_network_are_the_same_with_zeros_between_them(model: str) -> None:
    shape = (50,) if model == "mlp" else (3, 16, 16)
    model_of = lambda: make_model(model, shape, 10, Method.parse("crelu").activation)  # noqa: E731
    net, specified = NativeNet(model_of()), ModuleNet(model_of())
    (flat,) = FreshWeights(net, 3).draw("after_step", 2, 5)
    theirs = FreshWeights(specified, 3).draw("after_step", 2, 5)
    mine = net.named([flat, torch.zeros_like(net.parts[1].value)])
    assert all(torch.equal(mine[name], new) for name, new in zip(specified.params, theirs, strict=True))
    assert int((flat != 0).sum()) == sum(new.numel() for new in theirs)  # no number is 0 but padding
