"""The gates' ends are exact, and the cosine is a cosine."""

import math

import pytest
import torch

from adalin import AdaLin, bases
from adalin.nn._bases import make_base
from adalin.nn._fused import gate_into
from adalin.nn._gates import GATES, cosine

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
# Where |phi'| = L and where phi' = 0, for bases that attain them at numbers every dtype has.
STEEPEST = {"relu": 2.0, "tanh": 0.0, "sigmoid": 0.0, "hardtanh": 0.5, "relu6": 3.0, "sin": 0.0}
STEEPEST |= {
    "selu": 0.0,
    "softplus": 40.0,
    "softsign": 0.0,
    "elu": 1.0,
    "celu": 1.0,
    "leaky_relu": 1.0,
    "identity": 1.0,
}
FLAT = {"relu": -2.0, "tanh": 60.0, "sigmoid": -800.0, "hardswish": -4.0, "hardtanh": 2.0, "relu6": 7.0, "gelu": -60.0}
FLAT |= {"elu": -800.0, "selu": -800.0, "celu": -800.0, "softplus": -800.0, "silu": -800.0, "mish": -800.0}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gate", ["cosine", "linear", "quadratic"])
def test_the_gate_is_exactly_zero_where_the_slope_is_steepest_and_one_where_it_is_flat(gate, dtype):
    for base, x in STEEPEST.items():
        layer = AdaLin(base, 1, gate=gate, init=0.5, dtype=dtype)
        x = torch.full((40, 1), x, dtype=dtype)
        assert layer.saturation(x).unique().tolist() == [0.0], base
        assert torch.equal(layer(x), layer.base.phi(x)), base
    for base, x in FLAT.items():
        layer = AdaLin(base, 1, gate=gate, init=0.5, dtype=dtype)
        x = torch.full((40, 1), x, dtype=dtype)
        assert layer.saturation(x).unique().tolist() == [1.0], base
        assert torch.equal(layer(x), layer.base.phi(x) + 0.5 * x), base


def test_gelus_gate_closes_at_the_square_root_of_two():
    x = torch.tensor([[math.sqrt(2)]], dtype=torch.float64)
    assert AdaLin("gelu", 1).saturation(x).abs().item() < 1e-15


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1.5e-7), (torch.float64, 4e-16)])
def test_the_cosine_gate_is_a_cosine(dtype, tolerance):
    r = torch.linspace(0, 1, 100_001, dtype=dtype)
    assert (cosine(r).double() - torch.cos(math.pi / 2 * r.double())).abs().max() <= tolerance


@pytest.mark.parametrize("base", ["tanh", "sin"])
def test_the_cosine_gate_of_the_fused_kernels_is_one_too_with_exact_ends(base):
    ends = torch.tensor([0.0, 1.0]).repeat(11)  # odd places in vectors, and behind them
    r = torch.cat([ends, torch.linspace(0, 1, 100_001)])
    out = torch.empty_like(r)
    gate_into(out, r, torch.empty_like(r), make_base(base), cosine)
    assert torch.equal(out[: len(ends)], 1 - ends)
    assert not out.signbit().any()
    assert out.max() <= 1
    assert (out.double() - torch.cos(math.pi / 2 * r.double())).abs().max() <= 2.5e-7


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("base", bases())
def test_the_gate_stays_between_zero_and_one(base, gate):
    x = torch.cat([torch.linspace(-20, 20, 100_001), torch.tensor([math.sqrt(2), 2.3993573, 1.4905712])])[:, None]
    g = AdaLin(base, 1, gate=gate).saturation(x)
    assert g.min() >= 0
    assert g.max() <= 1


def test_the_gate_carries_no_gradient():
    x = torch.randn(4, 3, requires_grad=True)
    assert not AdaLin("tanh", 3).saturation(x).requires_grad


def test_a_callable_gate_gets_the_ratio():
    seen = []

    def gate(r):
        seen.append(r.clone())
        return 1 - r

    x = torch.randn(8, 3, dtype=torch.float64)
    layer = AdaLin("gelu", 3, gate=gate, dtype=torch.float64)
    assert torch.equal(layer(x), AdaLin("gelu", gate="linear", alpha=layer.alpha)(x))
    base = make_base("gelu")
    torch.testing.assert_close(seen[0], base.derivative(x, None).abs() / base.lipschitz)
