"""The layer: its values and its two derivatives."""

import copy
import math
import pickle
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

from adalin import AdaLin, CReLU, DeepFourier, bases, param_groups
from adalin.nn import Interpolation, _fused
from adalin.nn._bases import make_base
from adalin.nn._gates import GATES

BASES = bases()
PHI = {name: make_base(name).phi for name in BASES}


def layer(base, width, *, dtype=torch.float64, **options):
    return AdaLin(base, width, dtype=dtype, **options)


def values_and_gradients(function, x, *parameters, grad):
    x = x.detach().requires_grad_()
    y = function(x)
    return y.detach(), *torch.autograd.grad(y, (x, *parameters), grad)


@pytest.mark.parametrize("shape", [(64, 32), (8, 32, 5, 7), (4, 32, 9), (1, 32), (5000, 32, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adalin_relu_equals_prelu_to_the_bit(shape, dtype):
    x, grad = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    x.view(-1)[::7] = 0
    ours = layer("relu", 32, dtype=dtype, init=lambda alpha: alpha.uniform_(-1, 1))
    slope = ours.alpha.detach().clone().requires_grad_()
    expected = values_and_gradients(lambda x: F.prelu(x, slope), x, slope, grad=grad)
    actual = values_and_gradients(ours, x, ours.alpha, grad=grad)
    for mine, theirs in zip(actual[:2], expected[:2], strict=True):
        assert torch.equal(mine, theirs)
    # The native kernels sum in blocks, PyTorch in an order of its own.
    torch.testing.assert_close(actual[2], expected[2], rtol=1e-5, atol=1e-5 * math.sqrt(x.numel() / 32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_adalin_relu_is_within_one_ulp_of_prelu_in_half_precision(dtype):
    x, grad = torch.randn(64, 32, dtype=dtype), torch.randn(64, 32, dtype=dtype)
    ours = layer("relu", 32, dtype=dtype)
    slope = ours.alpha.detach().clone().requires_grad_()
    expected = values_and_gradients(lambda x: F.prelu(x, slope), x, slope, grad=grad)[:2]
    actual = values_and_gradients(ours, x, ours.alpha, grad=grad)[:2]
    for mine, theirs in zip(actual, expected, strict=True):
        distance = (mine.view(torch.int16).int() - theirs.view(torch.int16).int()).abs()
        assert distance.max() <= 1
    # The sum over the batch rounds once here and at every step in PyTorch: compare with the exact sum.
    exact = (x.double() * grad.double()).masked_fill(x > 0, 0).sum(0)
    _, _, mine = values_and_gradients(ours, x, ours.alpha, grad=grad)
    assert torch.equal(mine, exact.float().to(dtype)) or ((mine - exact).abs() <= exact.abs() * 2**-7 + 1e-3).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("base", BASES)
def test_alpha_zero_is_the_base_to_the_bit(base, gate, dtype):
    x = (4 * torch.randn(64, 32)).to(dtype)
    assert torch.equal(AdaLin(base, 32, gate=gate, init=0.0, dtype=dtype)(x), PHI[base](x))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("gate", [*GATES, lambda r: (1 - r) ** 3])
@pytest.mark.parametrize("base", BASES)
def test_value_and_derivatives_are_those_of_the_formula_by_autograd(base, gate, fused, monkeypatch):
    if not fused:
        monkeypatch.setattr(_fused, "usable", lambda x: False)
    x = 3 * torch.randn(32, 16, dtype=torch.float64)
    grad = torch.randn_like(x)
    ours = layer(base, 16, gate=gate, init=lambda alpha: alpha.uniform_(-1, 1))
    lipschitz = ours.base.lipschitz
    alpha = ours.alpha.detach().clone().requires_grad_()

    def formula(x):
        z = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(PHI[base](z).sum(), z)
        r = slope.abs() / lipschitz
        gates = {"cosine": (math.pi / 2 * r).cos(), "linear": 1 - r, "quadratic": 1 - r**2, "none": torch.ones_like(r)}
        g = gate(r) if callable(gate) else gates[gate]
        return PHI[base](x) + alpha * x * g.detach()

    expected = values_and_gradients(formula, x, alpha, grad=grad)
    actual = values_and_gradients(ours, x, ours.alpha, grad=grad)
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("base", BASES)
def test_gradcheck_holds_once_the_gate_is_frozen(base):
    x = (3 * torch.randn(6, 4, dtype=torch.float64)).requires_grad_()
    ours = layer(base, 4)
    g = ours.saturation(x)
    phi = ours.base.phi
    frozen = values_and_gradients(lambda x: phi(x) + ours.alpha * x * g, x, ours.alpha, grad=torch.ones_like(x))
    actual = values_and_gradients(ours, x, ours.alpha, grad=torch.ones_like(x))
    assert torch.autograd.gradcheck(lambda x, alpha: phi(x) + alpha * x * g, (x, ours.alpha))
    for mine, theirs in zip(actual, frozen, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("base", ["relu", "tanh", "gelu", "silu", "hardtanh"])
def test_large_inputs_are_computed_in_slices_with_the_same_result(base, monkeypatch):
    x, grad = torch.randn(37, 8, 3, dtype=torch.float64), torch.randn(37, 8, 3, dtype=torch.float64)
    ours = layer(base, 8)
    whole = values_and_gradients(ours, x, ours.alpha, grad=grad)
    monkeypatch.setattr(_fused, "SLICE", 100)
    monkeypatch.setattr(_fused, "_kept", _fused._Kept())
    sliced = values_and_gradients(ours, x, ours.alpha, grad=grad)
    for one, other in zip(whole, sliced, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("base", [name for name in BASES if name != "sin"])  # sin has no limit
@pytest.mark.parametrize("alpha", [0.5, -0.3, 0.0])
def test_infinite_inputs_give_the_limit_and_never_nan(base, alpha):
    infinite = torch.tensor([[math.inf], [-math.inf]], dtype=torch.float64)
    ours = layer(base, 1, init=alpha)
    far = torch.tensor([[1e12], [-1e12]], dtype=torch.float64)
    for mine, nearby in zip(ours(infinite).detach().flatten(), ours(far).detach().flatten(), strict=True):
        if nearby.abs() > 1e3:
            assert mine == math.copysign(math.inf, nearby)
        else:
            torch.testing.assert_close(mine, nearby, rtol=1e-9, atol=1e-9)
    for x in infinite:
        x = x.clone().requires_grad_()
        slope, d_alpha = torch.autograd.grad(ours(x[None]).sum(), (x, ours.alpha))
        assert not slope.isnan().any()
        assert not d_alpha.isnan().any()


def test_an_infinite_neighbour_changes_no_other_element():
    x = torch.randn(64, 16)
    ours = AdaLin("tanh", 16)
    with_infinity = x.clone()
    with_infinity[3, 5] = math.inf
    expected, actual = ours(x), ours(with_infinity)
    assert actual[3, 5] == math.inf
    actual = actual.detach().clone()
    actual[3, 5] = expected[3, 5]
    torch.testing.assert_close(actual, expected, rtol=0, atol=5e-7)


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("base", BASES)
def test_what_is_not_finite_changes_no_other_elements_bits(base, dtype, strange):
    layer = AdaLin(base, 16).to(torch.promote_types(dtype, torch.float32))
    others = torch.ones(8, 16, dtype=torch.bool)
    others[3, 5] = False

    def run(x):
        x = x.clone().requires_grad_()
        y = layer(x)
        (grad_x, grad_alpha) = torch.autograd.grad(y, (x, layer.alpha), torch.ones_like(y))
        return y[others], grad_x[others], grad_alpha[others[3]]

    x = torch.randn(8, 16, dtype=dtype)
    for mine, theirs in zip(run(x), run(x.masked_fill(~others, strange)), strict=True):
        assert mine.equal(theirs)


@pytest.mark.parametrize("base", BASES)
def test_strided_input_has_the_gradients_of_contiguous_input_in_float64_too(base):  # torch's phi differs
    layer, wide = AdaLin(base, 64).double(), torch.randn(33, 128, dtype=torch.float64)
    for strided in (wide[:, ::2], wide[:, :64].T.contiguous().T):
        results = []
        for x in (strided, strided.contiguous()):
            x = x.detach().requires_grad_()
            results.append(torch.autograd.grad(layer(x).sum(), (x, layer.alpha)))
        assert all(mine.equal(theirs) for mine, theirs in zip(*results, strict=True))


def test_nan_stays_nan():
    x = torch.tensor([[math.nan, 1.0]])
    for base in BASES:
        assert AdaLin(base, 2)(x).isnan().tolist() == [[True, False]]


def test_inf_gradients_pass_through_relu_as_in_prelu():
    x = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])
    grad = torch.tensor([[math.inf, math.inf], [1.0, 1.0]])
    ours = AdaLin("relu", 2)
    slope = ours.alpha.detach().clone().requires_grad_()
    expected = values_and_gradients(lambda x: F.prelu(x, slope), x, slope, grad=grad)
    actual = values_and_gradients(ours, x, ours.alpha, grad=grad)
    for mine, theirs in zip(actual, expected, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("shape", "dim", "axis"),
    [((6, 5, 4), 1, 1), ((6, 5, 4), -1, 2), ((6, 5, 4), 0, 0), ((5,), 1, 0), ((2, 3, 4, 5), -3, 1)],
)
def test_alpha_runs_along_dim(shape, dim, axis):
    x = -torch.rand(shape) - 1
    ours = AdaLin("relu", shape[axis], dim=dim)
    expected = ours.alpha.view([-1 if i == axis else 1 for i in range(len(shape))]) * x
    assert torch.equal(ours(x), expected)


def test_one_alpha_serves_a_whole_layer():
    ours = AdaLin("relu", 1, init=0.5)
    assert torch.equal(ours(torch.full((2, 7, 3), -2.0)), torch.full((2, 7, 3), -1.0))
    assert ours(torch.tensor(-2.0)).shape == ()


def test_one_alpha_can_serve_a_whole_network():
    shared = nn.Parameter(torch.tensor([0.5]))
    net = nn.Sequential(AdaLin("relu", alpha=shared), nn.Linear(3, 4), AdaLin("tanh", alpha=shared))
    assert sum(parameter is shared for parameter in net.parameters()) == 1
    net(torch.randn(5, 3)).sum().backward()
    assert shared.grad is not None


def test_alpha_starts_uniform_unless_told_otherwise():
    alpha = AdaLin("relu", 10_000).alpha.detach()
    assert 0 <= alpha.min() < 0.01 < 0.99 < alpha.max() <= 1
    assert abs(alpha.mean() - 0.5) < 0.02
    assert AdaLin("relu", 3, init=0.25).alpha.tolist() == [0.25] * 3
    assert AdaLin("relu", 3, init=nn.init.ones_).alpha.tolist() == [1.0] * 3


def test_mixed_precision_keeps_the_inputs_dtype_and_alphas():
    ours = AdaLin("tanh", 8)
    x = torch.randn(4, 8, dtype=torch.bfloat16, requires_grad=True)
    y = ours(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == torch.bfloat16
    assert ours.alpha.grad.dtype == torch.float32


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("base", [name for name in BASES if name != "softsign"])  # torch rounds softsign twice
def test_half_precision_rounds_phi_and_the_sum_and_nothing_else(base, dtype, fused, monkeypatch):
    if not fused:
        monkeypatch.setattr(_fused, "usable", lambda x: False)
    half = AdaLin(base, 16, dtype=dtype)
    single = AdaLin(base, 16, alpha=nn.Parameter(half.alpha.detach().float()))
    x = (2 * torch.randn(64, 16)).to(dtype)
    y, exact = half(x).float(), single(x.float())
    half_ulps = torch.finfo(dtype).eps / 2 * (PHI[base](x.float()).abs() + exact.abs())
    assert ((y - exact).abs() <= 1.01 * half_ulps + torch.finfo(dtype).tiny).all()


@pytest.mark.parametrize("base", [*BASES, nn.ELU(0.5), nn.Hardtanh(-2, 3)])
def test_pickles_and_deepcopies(base):
    ours = AdaLin(base, 4, gate="quadratic", lipschitz=2.0)
    x = torch.randn(3, 4)
    for twin in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)):
        assert torch.equal(twin(x), ours(x))
        assert twin.base.lipschitz == 2.0
        twin.alpha.data.zero_()
        assert ours.alpha.abs().sum() > 0


@pytest.mark.parametrize("base", BASES)
def test_backward_keeps_one_tensor_of_the_inputs_size(base):
    from benchmarks.activations import saved_inputs

    assert saved_inputs(AdaLin(base, 64)) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaLin("rleu", 3), "unknown base 'rleu' (did you mean 'relu'?)"),
        (lambda: AdaLin("relu", 3, gate="cosin"), "unknown gate 'cosin' (did you mean 'cosine'?)"),
        (lambda: AdaLin("relu", 0), "num_parameters must be a positive integer, not 0"),
        (lambda: AdaLin("ReLU", 3), "unknown base 'ReLU' (did you mean 'relu'?)"),
        (lambda: AdaLin("relu", 3, gate=None), "unknown gate None"),
        (lambda: AdaLin("relu", 3, init="zeros"), "init must be a finite number or a callable that fills a tensor"),
        (lambda: AdaLin("relu", 3, init=math.nan), "init must be a finite number or a callable that fills a tensor"),
        (lambda: AdaLin("relu", 3, dim="x"), "dim must be the number of an axis, not 'x'"),
        (lambda: AdaLin("relu", 10**12), "num_parameters must be a positive integer up to 2,147,483,647, not 10000000"),
        (lambda: AdaLin("relu", 3, alpha=torch.zeros(3)), "alpha must be an nn.Parameter, or it would not be trained"),
        (lambda: AdaLin("relu", 3, lipschitz=math.inf), "lipschitz must be a positive finite number, not inf"),
        (lambda: AdaLin("relu", 3, alpha=nn.Parameter(torch.zeros(2))), "num_parameters=3 disagrees with the 2 values"),
        (
            lambda: AdaLin("relu", 3)(torch.zeros(2, 4)),
            "AdaLin has 3 alphas, but axis 1 of its input of shape (2, 4) has 4",
        ),
        (lambda: AdaLin("relu", 3, dim=2)(torch.zeros(2, 3)), "AdaLin(dim=2) got an input of shape (2, 3)"),
        (lambda: AdaLin("relu", 3)(torch.zeros(2, 3, dtype=torch.int64)), "AdaLin needs a floating-point input"),
    ],
)
def test_mistakes_get_one_line_that_says_what_to_do(make, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", [None, [1.0, 2.0]])
@pytest.mark.parametrize("layer", [AdaLin("relu", 2), AdaLin(), Interpolation("relu", 2)])
def test_an_input_that_is_no_tensor_is_refused(layer, wrong):
    with pytest.raises(TypeError, match=f"^the input of {type(layer).__name__} must be a tensor, not "):
        layer(wrong)


@pytest.mark.parametrize("base", ["tanh", "silu"])
def test_inference_mode_and_default_devices_leave_no_trace(base, monkeypatch):
    monkeypatch.setattr(_fused, "_kept", _fused._Kept())
    _fused._scalar.cache_clear()
    ours, x = AdaLin(base, 256), torch.randn(512, 256)
    with torch.inference_mode(), torch.device("meta"):
        ours(x)
    ours(x.requires_grad_()).sum().backward()
    assert x.grad is not None


def test_an_initialiser_may_fill_or_return():
    assert AdaLin("relu", 3, init=lambda alpha: torch.full_like(alpha, 0.5)).alpha.tolist() == [0.5] * 3


def test_numpy_integers_are_widths():
    assert AdaLin("relu", np.int64(3)).alpha.shape == (3,)


def test_the_gradient_of_alpha_is_nobodys_scratch_memory():
    layers, x = [AdaLin("relu", 20_000) for _ in range(2)], torch.randn(1, 20_000)
    (layers[0](x) ** 2).sum().backward()
    before = layers[0].alpha.grad.clone()
    (layers[1](x + 1) ** 2).sum().backward()
    assert torch.equal(layers[0].alpha.grad, before)


@pytest.mark.parametrize("layer", [AdaLin("tanh", 4), AdaLin(), Interpolation("relu", 4), CReLU(), DeepFourier()])
def test_the_argument_has_the_name_that_torchs_activations_have(layer):
    x = torch.randn(3, 4)
    assert torch.equal(layer(input=x), layer(x))


def test_what_a_parametrised_alpha_learns_is_kept_out_of_weight_decay():
    layer = AdaLin("tanh", 4)
    parametrize.register_parametrization(layer, "alpha", nn.Sigmoid())
    _, alphas = param_groups(nn.Sequential(nn.Linear(4, 4), layer), weight_decay=0.1)
    assert [id(one) for one in alphas["params"]] == [id(layer.parametrizations.alpha.original)]
