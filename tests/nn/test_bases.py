"""The built-in bases, and what is found out about any other callable."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adalin import AdaLin, bases, convert
from adalin.nn._bases import FUNCTIONS, MODULES, as_base, make_base
from adalin.nn._estimate import estimate_lipschitz

VARIANTS = [
    *((name, ()) for name in bases()),
    ("elu", (0.3,)),
    ("elu", (2.5,)),
    ("celu", (0.25,)),  # a number float32 has: torch rounds CELU's alpha to it even in float64
    ("leaky_relu", (0.3,)),
    ("leaky_relu", (-1.7,)),
    ("softplus", (3.0, 10.0)),
    ("hardtanh", (-0.5, 2.0)),
    ("gelu", ("tanh",)),
]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return torch.tanh(self.scale * x)


class Clamp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        nn.init.constant_(self.first.weight, 1.0)

    def forward(self, x):
        return self.second(F.hardtanh(self.first(x), max_val=2.0))


@pytest.mark.parametrize(("name", "arguments"), VARIANTS)
@settings(max_examples=200, deadline=None)
@given(x=st.floats(-1e6, 1e6, allow_nan=False))
def test_the_derivative_never_exceeds_lipschitz(name, arguments, x):
    base = make_base(name, *arguments)
    z = torch.tensor([x], dtype=torch.float64)
    assert base.derivative(z, None).abs().item() <= base.lipschitz * (1 + 1e-14)
    assert base.derivative(z, base.phi(z)).abs().item() <= base.lipschitz * (1 + 1e-14)


@pytest.mark.parametrize(("name", "arguments"), VARIANTS)
def test_lipschitz_is_the_supremum(name, arguments):
    base = make_base(name, *arguments)
    assert estimate_lipschitz(base.phi, name) == pytest.approx(base.lipschitz, rel=1e-9)


@pytest.mark.parametrize(("name", "arguments"), VARIANTS)
def test_the_derivative_is_torchs_own(name, arguments):
    base = make_base(name, *arguments)
    x = torch.cat([torch.linspace(-40, 40, 8001, dtype=torch.float64), torch.tensor([-0.0, 3.0, -3.0, 6.0])])
    z = x.clone().requires_grad_()
    y = base.phi(z)
    (expected,) = torch.autograd.grad(y.sum(), z)
    torch.testing.assert_close(base.derivative(x, None), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(base.derivative(x, y.detach()), expected, rtol=1e-10, atol=1e-12)


def test_gelus_lipschitz_constant_is_exact():
    assert make_base("gelu").lipschitz == pytest.approx(1.1289041451851548, abs=1e-15)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_class_or_instance_stands_for_its_base(module):
    x = torch.randn(5, 3)
    for base in (module, module()):
        assert torch.equal(AdaLin(base, 3, init=0.0)(x), module()(x))


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (nn.ELU(0.5), (0.5,)),
        (nn.LeakyReLU(0.2), (0.2,)),
        (nn.GELU("tanh"), ("tanh",)),
        (nn.Softplus(2.0, 5.0), (2.0, 5.0)),
        (nn.Hardtanh(-2, 3), (-2, 3)),
        (nn.CELU(0.3), (0.3,)),
    ],
)
def test_a_module_keeps_its_settings(module, arguments):
    assert as_base(module).arguments == arguments
    x = 3 * torch.randn(50, 3)
    assert torch.equal(AdaLin(module, 3, init=0.0)(x), module(x))


@pytest.mark.parametrize("function", [F.relu, torch.relu, F.gelu, torch.tanh, F.silu, torch.sin, F.relu_])
def test_torchs_functions_are_known(function):
    assert as_base(function).name == FUNCTIONS[function]


def test_an_argument_after_one_that_is_left_out_is_kept():
    x = torch.tensor([0.5, 3.0])
    assert make_base("hardtanh", max_val=2.0).phi(x).tolist() == [0.5, 2.0]
    assert make_base("softplus", threshold=1.0).arguments == (1.0, 1.0)
    model = Clamp()
    expected = model(torch.full((1, 2), 5.0))
    assert torch.equal(convert(model, init=0.0).model(torch.full((1, 2), 5.0)), expected)


def test_any_elementwise_callable_serves_as_base():
    def bent(x):
        return (torch.sqrt(x * x + 1) - 1) / 2 + x

    ours = AdaLin(bent, 3, dtype=torch.float64)
    assert ours.base.lipschitz == pytest.approx(1.5, rel=1e-6)
    x = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    slope = 0.5 * x / torch.sqrt(x * x + 1) + 1
    g = torch.cos(math.pi / 2 * slope / ours.base.lipschitz)
    torch.testing.assert_close(ours(x), bent(x) + ours.alpha * x * g, rtol=1e-9, atol=1e-9)
    (actual,) = torch.autograd.grad(ours(x).sum(), x)
    torch.testing.assert_close(actual, slope + ours.alpha * g, rtol=1e-9, atol=1e-9)


def test_a_module_of_ones_own_serves_as_base():
    class Squareplus(nn.Module):
        def forward(self, x):
            return (x + torch.sqrt(x * x + 4)) / 2

    ours = AdaLin(Squareplus, 3)
    assert ours.base.lipschitz == pytest.approx(1.0, rel=1e-4)
    assert ours(torch.randn(2, 3)).shape == (2, 3)


def test_a_base_that_returns_its_input_is_not_written_into():
    x = torch.randn(4, 3)
    before = x.clone()
    AdaLin(lambda x: x, 3, gate="none")(x)
    assert torch.equal(x, before)


def test_a_given_lipschitz_constant_wins():
    assert AdaLin("gelu", 3, lipschitz=1.12).base.lipschitz == 1.12
    assert AdaLin(torch.square, 3, lipschitz=7.0).base.lipschitz == 7.0
    assert AdaLin("gelu", 3, lipschitz=1.12).saturation(torch.linspace(-5, 5, 999).view(-1, 3)).min() == 0


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(context, grad):
        (x,) = context.saved_tensors
        return grad * x.sigmoid() * (1 + x * (1 - x.sigmoid()))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (lambda x: torch.softmax(x, -1), "is not elementwise"),
        (lambda x: x.cumsum(-1), "is not elementwise"),
        (lambda x: x[..., :1], "is not elementwise"),
        (nn.LayerNorm, "cannot be used as a base"),
        (F.dropout, "is not elementwise"),
        (torch.square, "no finite Lipschitz constant"),
        (torch.exp, "no finite Lipschitz constant"),
        (lambda x: x.abs().sqrt(), "no finite Lipschitz constant"),
        (lambda x: x.abs().clamp_min(1e-30).log(), "no finite Lipschitz constant"),
        (torch.sign, "is constant"),
        (nn.PReLU(), "has parameters of its own"),
        (Scaled, "Scaled has buffers, which would be neither saved nor moved with the layer"),
        (lambda x: x.sin_(), "changes its input"),
        (Swish.apply, "base apply has no forward-mode derivative, of which the gate is made"),
        (3.0, "base must be a name"),
    ],
)
def test_a_base_that_cannot_work_gets_a_clear_error(base, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        AdaLin(base, 3)
    assert "\n" not in str(error.value)
