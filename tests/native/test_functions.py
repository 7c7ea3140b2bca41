"""Each vector function on its own, against float64, on millions of floats of all sizes."""

import math

import numpy as np
import pytest
import torch
from scipy import special

from adalin import native
from adalin.nn import GATES, _native, make_base

pytestmark = pytest.mark.skipif(native.isa() is None, reason="no native kernels here")

ULPS = 6
EDGES = [0.0, 1e-45, 1.2e-38, 3.4e38, 0.5, 1, 3, 6, 13, 14.42, 20, 87, 88, 89, 103, 104, 105, math.pi, 1e5, 1e6]


def floats():
    """Bit patterns of all kinds, dense where the functions bend, and the edges; as many as a multiple of 16."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randint(-(2**31), 2**31 - 1, (1_500_000,), generator=generator).to(torch.int32)
    any_float = patterns.view(torch.float32)
    near, far = (span * (2 * torch.rand(1_000_000, generator=generator) - 1) for span in (20, 120))
    edges = torch.tensor([sign * edge for edge in EDGES for sign in (1, -1)])
    x = torch.cat([edges, any_float[any_float.isfinite()], near, far, torch.linspace(-2, 2, 500_001)])
    return x[: len(x) // 16 * 16].contiguous()


def ulps(actual, expected):
    """The distance in units of the last place of float32, which are 2^-149 for denormals."""
    _, exponent = np.frexp(expected)
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    distance = np.abs(actual.numpy().astype(np.float64) - expected) / np.ldexp(1.0, np.maximum(exponent - 24, -149))
    return np.where(np.isinf(rounded) & (actual.numpy() == rounded), 0, distance)


def exponential(d, above, factor, rate):
    left = np.minimum(rate * d, 0)
    return np.where(d > 0, above * d, factor * np.expm1(left)), np.where(d > 0, above, factor * rate * np.exp(left))


def gelu_tanh(d):
    scale, cubic = math.sqrt(8 / math.pi), 0.044715
    z = np.clip(d, -1e3, 1e3)
    u = scale * (z + cubic * z**3)
    s = special.expit(u)
    return d * s, s + z * s * special.expit(-u) * scale * (1 + 3 * cubic * z * z)


def mish(d):
    e = np.exp(-np.abs(d))
    n = np.where(d > 0, 1 + 2 * e, e * (e + 2))
    rest = np.where(d > 0, 2 * e * e, 2)
    t = n / (n + rest)
    return d * t, t + d * special.expit(d) * rest / (n + rest) * (1 + t)


def gelu(d):
    return d * special.ndtr(d), special.ndtr(d) + d * np.exp(-d * d / 2) / math.sqrt(2 * math.pi)


def softplus(d):
    log = np.maximum(d, 0) + np.log1p(np.exp(-np.abs(d)))
    return np.where(d > 20, d, log), np.where(d > 20, 1, special.expit(d))


def logistic_slope(d):
    e = np.exp(-np.abs(d))
    return e / (1 + e) ** 2


# phi and phi' in float64, written so that they keep their digits in the tails.
EXACT = {
    "relu": lambda d: (np.maximum(d, 0), (d > 0) * 1.0),
    "tanh": lambda d: (np.tanh(d), 4 * logistic_slope(2 * d)),
    "sigmoid": lambda d: (special.expit(d), logistic_slope(d)),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": lambda d: (d * special.expit(d), special.expit(d) + d * logistic_slope(d)),
    "mish": mish,
    "elu": lambda d: exponential(d, 1.0, 1.0, 1.0),
    "selu": lambda d: exponential(d, 1.0507009873554805, 1.0507009873554805 * 1.6732632423543772, 1.0),
    "celu": lambda d: exponential(d, 1.0, 1.0, 1.0),
    "leaky_relu": lambda d: (d * np.where(d > 0, 1, np.float32(0.01)), np.where(d > 0, 1, np.float32(0.01))),
    "softplus": softplus,
    "softsign": lambda d: (d / (1 + np.abs(d)), 1 / (1 + np.abs(d)) ** 2),
    "hardswish": lambda d: (
        d * np.clip(d + 3, 0, 6) / 6,
        np.where(d >= 3, 1, np.where(d <= -3, 0, d / 3 + 0.5)),
    ),
    "hardtanh": lambda d: (np.clip(d, -1, 1), (np.abs(d) < 1) * 1.0),
    "relu6": lambda d: (np.clip(d, 0, 6), ((d > 0) & (d < 6)) * 1.0),
    "sin": lambda d: (np.sin(d), np.cos(d)),
    "identity": lambda d: (d, np.ones_like(d)),
}
# Where phi' crosses 0 it has no relative accuracy: there it is held against L.
CROSSING = {"gelu", "gelu_tanh", "silu", "mish", "hardswish"}


@pytest.fixture(scope="module")
def x():
    return floats()


@pytest.mark.parametrize("base", EXACT)
def test_phi_and_its_derivative_are_within_six_units_in_the_last_place(base, x):
    y, slope, gate = native.points(_native.kernel(make_base(base), GATES.get("cosine")), x)
    with np.errstate(under="ignore", over="ignore"):
        exact_y, exact_slope = EXACT[base](x.double().numpy())
        assert ulps(y, exact_y).max() <= ULPS
        error = ulps(slope, exact_slope)
    if base in CROSSING:
        near_zero = np.abs(slope.numpy() - exact_slope) <= 2 * 2.0**-23 * make_base(base).lipschitz
        error = np.where(near_zero, 0, error)
    assert error.max() <= ULPS
    assert gate.min() >= 0
    assert gate.max() <= 1


@pytest.mark.parametrize("gate", GATES)
def test_gates_are_within_six_units_in_the_last_place_and_exact_at_their_ends(gate):
    room = torch.cat([torch.tensor([0.0, 1.0]), torch.linspace(0, 1, 2_000_000), torch.logspace(-38, 0, 499_998)])
    exact = {
        "cosine": lambda t: np.sin(math.pi / 2 * t),
        "linear": lambda t: t,
        "quadratic": lambda t: t * (2 - t),
        "none": np.ones_like,
    }
    values = native.gate(gate, room)
    assert ulps(values, exact[gate](room.double().numpy())).max() <= ULPS
    assert values.max() <= 1
    assert values[1] == 1
    assert values[0] == (gate == "none")


def test_every_built_in_base_has_a_kernel():
    for name in EXACT:
        assert _native.kernel(make_base(name), GATES.get("cosine")) is not None
    assert set(EXACT) == set(_native.KERNELS)
