"""CReLU, deep Fourier features, interpolation, parameter groups, and the registry by name."""

import copy

import pytest
import torch
from torch import nn

from adalin import (
    AdaLin,
    CReLU,
    DeepFourier,
    Interpolation,
    activations,
    make_activation,
    param_groups,
    register_activation,
)
from adalin.nn import _registry


@pytest.mark.parametrize(("shape", "dim"), [((4, 6), 1), ((4, 6, 5, 5), 1), ((4, 6, 5), -1), ((6,), 1)])
def test_crelu_and_fourier_double_the_width_on_any_axis(shape, dim):
    x = torch.randn(shape)
    axis = 0 if len(shape) == 1 else dim
    first, second = CReLU(dim=dim)(x).chunk(2, axis)
    assert torch.equal(first, x.clamp_min(0))
    assert torch.equal(second, (-x).clamp_min(0))
    first, second = DeepFourier(dim=dim)(x).chunk(2, axis)
    assert torch.equal(first, x.sin())
    assert torch.equal(second, x.cos())


def test_interpolation_mixes_the_base_and_the_identity():
    layer = Interpolation("tanh", 3, dtype=torch.float64)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    share = torch.sigmoid(layer.alpha)
    torch.testing.assert_close(layer(x), share * x + (1 - share) * torch.tanh(x))
    assert torch.autograd.gradcheck(
        lambda x, alpha: torch.func.functional_call(layer, {"alpha": alpha}, x), (x, layer.alpha)
    )


def test_param_groups_keep_alpha_out_of_weight_decay():
    shared = nn.Parameter(torch.rand(1))
    model = nn.Sequential(
        nn.Linear(4, 8), AdaLin("relu", 8), Interpolation("relu", 8), AdaLin(alpha=shared), AdaLin(alpha=shared)
    )
    decayed, kept = param_groups(model, weight_decay=0.5, lr=0.1)
    assert decayed["weight_decay"] == 0.5
    assert kept["weight_decay"] == 0.0
    assert [id(p) for p in kept["params"]] == [id(model[1].alpha), id(model[2].alpha), id(shared)]
    for optimizer in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop):
        twin = copy.deepcopy(model)
        stepper = optimizer(param_groups(twin, weight_decay=0.5, lr=0.1))
        for parameter in twin.parameters():
            parameter.grad = torch.zeros_like(parameter)
        stepper.step()
        assert torch.equal(twin[1].alpha, model[1].alpha)
        assert not torch.equal(twin[0].weight, model[0].weight)


def test_param_groups_leave_out_a_group_with_nothing_in_it():
    (group,) = param_groups(nn.Linear(2, 2), weight_decay=0.1)
    assert group["weight_decay"] == 0.1


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_trains_keeps_dtype_and_copies(name):
    entry = activations()[name]
    for dtype in (torch.float32, torch.float64):
        act = make_activation(name, 6, dim=1)
        net = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6 * entry.expansion, 2)).to(dtype)
        x = torch.randn(5, 4, dtype=dtype)
        y = net(x)
        y.sum().backward()
        assert y.dtype == dtype
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
        assert torch.equal(copy.deepcopy(net)(x), y)
    assert entry.summary


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_compiles(name):
    torch._dynamo.reset()
    act, x = make_activation(name, 6), torch.randn(5, 6)
    torch.testing.assert_close(torch.compile(act, fullgraph=True, backend="aot_eager")(x), act(x))


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_can_be_built_without_a_width(name):
    make_activation(name)(torch.randn(5, 6))


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_accepts_inplace_and_leaves_its_input(name):
    x = torch.randn(5, 6)
    before = x.clone()
    make_activation(name, 6, inplace=True)(x)
    assert torch.equal(x, before)


def test_options_reach_the_layer():
    assert make_activation("adalin-gelu", 3, gate="linear").gate.__name__ == "linear"
    assert make_activation("adalin", 3, base="tanh").base.name == "tanh"
    assert torch.equal(make_activation("leaky_relu", negative_slope=0.5)(torch.tensor([-2.0])), torch.tensor([-1.0]))
    assert make_activation("prelu", 3).alpha.tolist() == [0.25] * 3


def test_a_class_or_callable_serves_in_place_of_a_name():
    assert isinstance(make_activation(nn.ReLU), nn.ReLU)
    assert make_activation(AdaLin, 3).alpha.shape == (3,)
    assert isinstance(make_activation(lambda: nn.ELU(0.5)), nn.ELU)


def test_ones_own_activation_can_be_registered(monkeypatch):
    monkeypatch.setattr(_registry, "_REGISTRY", dict(_registry._REGISTRY))
    register_activation("cube", lambda width, dim: nn.ELU(), "an example")
    assert isinstance(make_activation("cube", 3), nn.ELU)
    with pytest.raises(ValueError, match="registered already"):
        register_activation("cube", lambda width, dim: nn.ELU(), "an example")


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"unknown activation 'adalin-tan' \(did you mean 'adalin-tanh'\?\)"):
        make_activation("adalin-tan")
    with pytest.raises(ValueError, match="base 'relu': got an unexpected keyword argument 'slope'"):
        make_activation("relu", slope=3)
