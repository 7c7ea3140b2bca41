"""The layer's kernels against a plain loop, in every shape, layout and number of threads."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adalin import AdaLin, bases, native
from adalin.native import _layer, _library
from adalin.nn import GATES, _native, make_base

pytestmark = pytest.mark.skipif(native.isa() is None, reason="no native kernels here")

BUILT = [name for name in _library.ISAS if (_library.FOLDER / f"adalin_{name}.so").exists()]
RUN_HERE = [name for name in BUILT if name in _library.ISAS[_library.ISAS.index(_library._best()) :]]


def run(layer, x, grad):
    """y, the gradient for x and alpha's."""
    x = x.detach().requires_grad_()
    y = layer(x)
    return y.detach(), *torch.autograd.grad(y, (x, layer.alpha), grad)


def uses_kernel(layer, x):
    return layer(x.requires_grad_()).grad_fn.native


def plain_loop(base, gate, x, alpha, grad, shape):
    """The specification, one element after the other, in float64: what lies in memory as (n, c, s)."""
    n, c, s = shape
    y, grad_x, grad_alpha = [], [], [0.0] * c
    for i in range(n * c * s):
        z = torch.tensor(x[i], dtype=torch.float64)
        a = alpha[i // s % c]
        slope = base.derivative(z, None).item()
        r = min(abs(slope) / base.lipschitz, 1.0)
        g = {"cosine": math.cos(math.pi / 2 * r), "linear": 1 - r, "quadratic": 1 - r * r, "none": 1.0}[gate]
        y.append(base.phi(z).item() + a * x[i] * g)
        grad_x.append(grad[i] * (slope + a * g))
        grad_alpha[i // s % c] += grad[i] * x[i] * g
    return y, grad_x, grad_alpha


@settings(max_examples=60, deadline=None)
@given(
    base=st.sampled_from(bases()),
    gate=st.sampled_from(list(GATES)),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 2**32 - 1),
)
def test_kernels_equal_the_plain_loop(base, gate, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    x, grad = (3 * torch.randn(math.prod(shape), generator=generator) for _ in range(2))
    alpha = torch.rand(shape[1], generator=generator) + 0.1
    y, grad_x, grad_alpha = (torch.full_like(like, math.nan) for like in (x, x, alpha))
    made = make_base(base)
    function = _native.kernel(made, GATES.get(gate))
    assert native.adalin_forward(function, x, alpha, y, shape) == native.Outcome.FINITE
    native.adalin_backward(function, x, alpha, grad, grad_x, grad_alpha, shape)
    expected = plain_loop(made, gate, x.tolist(), alpha.tolist(), grad.tolist(), shape)
    for mine, theirs in zip((y, grad_x, grad_alpha), expected, strict=True):
        torch.testing.assert_close(mine.double(), torch.tensor(theirs, dtype=torch.float64), rtol=2e-5, atol=2e-5)


SHAPES = st.one_of(
    st.tuples(st.integers(1, 300), st.integers(1, 300)),
    st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 3000)),
    st.tuples(st.integers(1, 3000), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 5000)),
)


@settings(max_examples=80, deadline=None)
@given(
    base=st.sampled_from(["relu", "tanh", "gelu", "elu"]),
    shape=SHAPES,
    axis=st.integers(-4, 3),
    last=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_axis_and_layout_equals_float64(base, shape, axis, last, seed):
    torch.manual_seed(seed)
    axis = axis % len(shape)
    x, grad = torch.randn(shape), torch.randn(shape)
    if last and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    layer = AdaLin(base, shape[axis], dim=axis)
    exact = AdaLin(base, alpha=nn.Parameter(layer.alpha.detach().double()))
    exact.dim = axis
    assert uses_kernel(layer, x.clone())
    actual, expected = run(layer, x, grad), run(exact, x.double(), grad.double())
    for mine, theirs in zip(actual[:2], expected[:2], strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-6)
    count = x.numel() // shape[axis]
    torch.testing.assert_close(actual[2].double(), expected[2], rtol=1e-5, atol=1e-6 * math.sqrt(count))
    assert actual[1].stride() == x.stride()


@pytest.mark.parametrize("shape", [(100_000, 4), (4096, 128), (64, 32, 32, 32)])
def test_the_gradient_of_alpha_is_as_exact_as_torchs(shape):
    x, grad = torch.randn(shape), torch.randn(shape) + 1
    layer = AdaLin("relu", shape[1])
    weight = layer.alpha.detach().clone().requires_grad_()
    mine = run(layer, x, grad)[2].double()
    (torchs,) = torch.autograd.grad(F.prelu(x, weight), weight, grad)
    axes = [axis for axis in range(x.dim()) if axis != 1]
    exact = (x.double() * grad.double()).masked_fill(x > 0, 0).sum(axes)
    assert (mine - exact).norm() <= 2 * (torchs.double() - exact).norm() + 1e-7 * exact.norm()


@pytest.mark.parametrize("base", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("shape", [(37, 100), (9, 16, 11, 13), (257, 259)])
def test_strided_input_gives_the_bits_of_contiguous_input(base, shape):
    x, grad = torch.randn(shape), torch.randn(shape)
    wide = torch.randn(*shape[:-1], 2 * shape[-1])
    wide[..., ::2] = x
    layer = AdaLin(base, shape[1])
    expected = run(layer, x, grad)
    for strided in (wide[..., ::2], x.transpose(0, -1).contiguous().transpose(0, -1)):
        for mine, theirs in zip(run(layer, strided, grad), expected, strict=True):
            assert torch.equal(mine, theirs)
    grads = torch.stack([grad, grad], -1)[..., 0]
    for mine, theirs in zip(run(layer, x, grads), expected, strict=True):
        assert torch.equal(mine, theirs)
    summed = run(layer, x, torch.tensor(1.0).expand(shape))
    for mine, theirs in zip(summed, run(layer, x, torch.ones(shape)), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("base", ["relu", "tanh", "gelu", "hardtanh"])
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(40, 100), (5, 7, 12, 12), (300, 257)])
def test_a_strange_number_changes_no_other_elements_bits(base, strange, shape):
    x, grad = torch.randn(shape), torch.randn(shape)
    where = (3, 5, *([1] * (len(shape) - 2)))
    with_it = x.clone()
    with_it[where] = strange
    without = x.clone()
    without[where] = 0
    layer = AdaLin(base, shape[1])
    y, grad_x, grad_alpha = run(layer, with_it, grad)
    y_, grad_x_, grad_alpha_ = run(layer, without, grad)
    exact = AdaLin(base, alpha=nn.Parameter(layer.alpha.detach().double()))
    expected = run(exact, with_it.double(), grad.double())
    for mine, theirs in ((y, expected[0]), (grad_x, expected[1])):
        torch.testing.assert_close(mine[where].double(), theirs[where], rtol=1e-5, atol=1e-6, equal_nan=True)
    torch.testing.assert_close(grad_alpha[5].double(), expected[2][5], rtol=1e-4, atol=1e-4, equal_nan=True)
    for mine, other in ((y, y_), (grad_x, grad_x_)):
        mine[where] = other[where] = 0
        assert torch.equal(mine, other)
    others = torch.arange(shape[1]) != 5
    assert torch.equal(grad_alpha[others], grad_alpha_[others])


@pytest.mark.parametrize("shape", [(64, 1024), (1, 70_000), (70_000, 3), (65, 17, 15, 5), (4, 3, 40_000)])
@pytest.mark.parametrize("base", ["relu", "gelu"])
def test_threads_change_no_bits(base, shape):
    x, grad = torch.randn(shape), torch.randn(shape)
    assert x.numel() >= 2**16
    layer = AdaLin(base, shape[1])
    alone = run(layer, x, grad)
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        for mine, theirs in zip(run(layer, x, grad), alone, strict=True):
            assert torch.equal(mine, theirs)


def test_kernels_use_the_threads_of_torch():
    assert _library.library().adalin_has_threads()


@pytest.mark.skipif(not {"v3", "v4"} <= set(RUN_HERE), reason="needs AVX2 and AVX-512")
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("base", bases())
def test_avx2_and_avx512_give_the_same_bits(base, gate, monkeypatch):
    for shape in ((33, 100), (6, 17, 9, 9), (3, 5, 700), (5000, 3)):
        x, grad = 4 * torch.randn(shape), torch.randn(shape)
        layer = AdaLin(base, shape[1], gate=gate)
        results = []
        for name in ("v3", "v4"):
            monkeypatch.setattr(_layer, "library", lambda name=name: _library.load(name))
            results.append(run(layer, x, grad))
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("isa", _library.ISAS)
def test_each_instruction_set_equals_float64(isa, monkeypatch):
    if isa not in RUN_HERE:
        pytest.skip("not on this machine")
    monkeypatch.setattr(_layer, "library", lambda: _library.load(isa))
    x, grad = 3 * torch.randn(65, 33), torch.randn(65, 33)
    for base in bases():
        layer = AdaLin(base, 33)
        exact = AdaLin(base, alpha=nn.Parameter(layer.alpha.detach().double()))
        for mine, theirs in zip(run(layer, x, grad), run(exact, x.double(), grad.double()), strict=True):
            torch.testing.assert_close(mine.double(), theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("base", bases())
def test_alphas_of_zero_give_torchs_phi_to_the_bit_in_any_layout(base):
    layer = AdaLin(base, 8, init=0.0)
    x = 4 * torch.randn(5, 8, 6, 6)
    for input in (x, x.contiguous(memory_format=torch.channels_last), x[..., ::2], x.requires_grad_()):
        assert torch.equal(layer(input), layer.base.phi(input))


def test_one_negative_zero_among_the_alphas_is_no_trouble():
    alpha = nn.Parameter(torch.tensor([0.0, -0.0, 0.5]))
    y = AdaLin("relu", alpha=alpha)(torch.tensor([[-math.inf, -2.0, -2.0]]))
    assert y.tolist() == [[0.0, 0.0, -1.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(4, 3, dtype=torch.float64)}, "x must be float32 on the CPU, not torch.float64 on cpu"),
        ({"x": torch.zeros(4, 3, device="meta")}, "x must be float32 on the CPU, not torch.float32 on meta"),
        ({"y": torch.zeros(4, 2)}, "y has 8 elements, not 12"),
        ({"alpha": torch.zeros(4)}, "alpha has 4 elements, not 3"),
        ({"y": torch.zeros(3, 4).T}, "y is not contiguous: its strides are (1, 4) for shape (4, 3)"),
        ({"x": torch.frombuffer(bytearray(50), dtype=torch.float32, count=12, offset=1)}, "x has no aligned memory"),
    ],
)
def test_a_tensor_that_a_kernel_cannot_take_gets_one_line(change, message):
    tensors = {"x": torch.zeros(4, 3), "alpha": torch.ones(3), "y": torch.zeros(4, 3)} | change
    function = _native.kernel(make_base("tanh"), GATES.get("cosine"))
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        native.adalin_forward(function, *tensors.values(), (4, 3, 1))
    assert "\n" not in str(error.value)


def test_misaligned_tensors_take_the_plain_formula():
    misaligned = torch.frombuffer(bytearray(50), dtype=torch.float32, count=12, offset=1).view(4, 3)
    assert AdaLin("tanh", 3)(misaligned).tolist() == [[0.0] * 3] * 4
