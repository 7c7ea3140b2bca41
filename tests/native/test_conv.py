"""Convolutional layers' kernels against torch in float64."""

import copy
import ctypes
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.double_kernels import double_kernels
from torch import nn

from adalin import AdaLin, CReLU, DeepFourier, Interpolation, bases, native
from adalin.native import ActivationKind, _library, _network, padded
from adalin.nn import GATES, make_base, native_form
from adalin.nn._registry import Fixed

pytestmark = pytest.mark.skipif(native.isa() is None, reason="no native kernels here")


KINDS = {
    Fixed: ActivationKind.PLAIN,
    AdaLin: ActivationKind.ADALIN,
    Interpolation: ActivationKind.INTERPOLATION,
    CReLU: ActivationKind.CRELU,
    DeepFourier: ActivationKind.FOURIER,
}


@dataclass
class Layer:
    """A convolution, its activation and pooling in torch; and the same numbers as the kernels take them."""

    height: int
    width: int
    conv: nn.Conv2d
    activation: nn.Module

    @property
    def copies(self):
        return 2 if isinstance(self.activation, CReLU | DeepFourier) else 1

    @property
    def pooled(self):
        kernel = self.conv.kernel_size[0]
        return (self.height - kernel + 1) // 2, (self.width - kernel + 1) // 2

    @property
    def alpha(self):
        return getattr(self.activation, "alpha", None)

    def description(self, dtype):
        module, (units, channels, kernel, _) = self.activation, self.conv.weight.shape
        layer = native.LinearLayer(inputs=kernel * kernel * channels, outputs=units, width=self.copies * units)
        layer.kind = KINDS[type(module)]
        if self.copies == 1:
            base, gate, numbers = native_form(module.base, getattr(module, "computed_gate", GATES.get("none")))
            layer.set_function(base, gate, module.base.inverse_lipschitz[dtype], numbers)
        return native.Conv(height=self.height, width=self.width, channels=channels, kernel=kernel, units=layer)

    def torch(self, x, grad, dtype=torch.float64):
        """Outputs and gradients for (batch, channels, height, width)."""
        model = copy.deepcopy(nn.Sequential(self.conv, self.activation, nn.MaxPool2d(2))).to(dtype)
        x = x.to(dtype).requires_grad_()
        y = model(x)
        return y.detach(), *torch.autograd.grad(y, (x, *model.parameters()), grad.to(dtype))

    def kernels(self, x, grad, library, *, forward_only=False):
        dtype = _network.real_type(library)
        batch, channels, *_ = x.shape
        units, (height, width), kernel = self.conv.out_channels, self.pooled, self.conv.kernel_size[0]
        wide, out_row, in_row = padded(units), padded(self.copies * units), padded(channels)
        x = x.to(dtype).permute(0, 2, 3, 1).contiguous()
        weight = torch.zeros(kernel, kernel, channels, wide, dtype=dtype)
        weight[..., :units] = self.conv.weight.detach().permute(2, 3, 1, 0)
        bias, alpha = torch.zeros(wide, dtype=dtype), torch.zeros(wide, dtype=dtype)
        bias[:units] = self.conv.bias.detach()
        if self.alpha is not None:
            alpha[:units] = self.alpha.detach()
        winner, place = (
            torch.full((batch, height, width, self.copies, wide), torch.nan, dtype=dtype) for _ in range(2)
        )
        output = torch.full((batch * height * width * self.copies * units + 16,), torch.nan, dtype=dtype)
        room = torch.zeros(3 * 4 * width * wide, dtype=dtype)
        pointers = [tensor.data_ptr() for tensor in (weight, bias, alpha, room, winner, place, output)]
        description = self.description(dtype)
        library.adalin_conv_forward(ctypes.addressof(description), x.data_ptr(), batch, *pointers)
        y = output[:-16].view(batch, height, width, self.copies * units).permute(0, 3, 1, 2)

        if forward_only:
            return y

        # What is in the padding of gradients must not matter.
        wide_grad = torch.full((batch * height * width * out_row + 16,), 1e30, dtype=dtype)
        own = wide_grad[:-16].view(batch, height, width, out_row)
        own[..., : self.copies * units] = grad.permute(0, 2, 3, 1)
        room = torch.zeros(
            (4 + 2 * self.copies) * height * width * wide + kernel * kernel * units * in_row, dtype=dtype
        )
        grads = [torch.zeros_like(tensor) for tensor in (weight, bias, alpha)]
        grad_x = torch.full((batch, self.height, self.width, in_row), torch.nan, dtype=dtype)
        pointers = [tensor.data_ptr() for tensor in (weight, alpha, winner, place, wide_grad)]
        results = [tensor.data_ptr() for tensor in (room, *grads, grad_x)]
        library.adalin_conv_backward(ctypes.addressof(description), x.data_ptr(), batch, *pointers, *results)
        for tensor in grads:
            assert not tensor[..., units:].any()
        grads = [tensor[..., :units] for tensor in grads]
        found = [y, grad_x[..., :channels].permute(0, 3, 1, 2), grads[0].permute(3, 2, 0, 1), grads[1]]
        return found + ([] if self.alpha is None else [grads[2]])


def make_activation(name, units):
    kind, _, base = name.partition(":")
    if kind == "adalin":
        base, _, gate = base.partition("/")
        return AdaLin(base, units, gate=gate or "cosine")
    if kind == "interpolation":
        return Interpolation(base, units)
    return {"crelu": CReLU, "fourier": DeepFourier}[kind]() if not base else Fixed(make_base(base))


ACTIVATIONS = [
    *(f"fixed:{base}" for base in bases()),
    *(f"adalin:{base}" for base in bases()),
    *(f"adalin:tanh/{gate}" for gate in GATES),
    "adalin:relu/none",
    "interpolation:relu",
    "interpolation:tanh",
    "crelu",
    "fourier",
]


def make_layer(name, *, channels=3, units=16, kernel=5, size=(13, 10)):
    return Layer(*size, nn.Conv2d(channels, units, kernel), make_activation(name, units))


BUILT = [name for name in _library.ISAS if (_library.FOLDER / f"adalin_{name}.so").exists()]
RUN_HERE = [name for name in BUILT if name in _library.ISAS[_library.ISAS.index(_library._best()) :]]


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(ACTIVATIONS),
    channels=st.integers(1, 35),
    units=st.sampled_from([1, 5, 16, 20, 32, 50, 64, 70]),
    kernel=st.integers(1, 5),
    height=st.integers(6, 14),
    width=st.integers(6, 14),
    batch=st.sampled_from([1, 2, 7]),
    seed=st.integers(0, 2**31),
)
def test_outputs_and_all_gradients_equal_float64(name, channels, units, kernel, height, width, batch, seed):
    torch.manual_seed(seed)
    layer = make_layer(name, channels=channels, units=units, kernel=kernel, size=(height, width))
    x = torch.randn(batch, channels, height, width)
    grad = torch.randn(batch, layer.copies * units, *layer.pooled)
    found = layer.kernels(x, grad, double_kernels())
    for mine, exact in zip(found, layer.torch(x, grad), strict=True):
        assert (mine - exact).norm() <= 1e-12 * (exact.norm() + 1)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("isa", _library.ISAS)
def test_every_activation_on_every_instruction_set_equals_float64(isa, name):
    if isa not in RUN_HERE:
        pytest.skip("not on this machine")
    layer = make_layer(name, channels=5, units=20)
    x, grad = torch.randn(7, 5, 13, 10), torch.randn(7, layer.copies * 20, *layer.pooled)
    found = layer.kernels(x, grad, _library.load(isa))
    for mine, exact in zip(found, layer.torch(x, grad), strict=True):
        assert (mine - exact).norm() <= 1e-5 * exact.norm() + 1e-6


@pytest.mark.skipif(not {"v3", "v4"} <= set(RUN_HERE), reason="needs AVX2 and AVX-512")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_avx2_and_avx512_give_the_same_bits(name):
    for channels, units, kernel, size in ((3, 16, 5, (32, 32)), (5, 20, 3, (13, 10)), (20, 70, 2, (7, 8))):
        layer = make_layer(name, channels=channels, units=units, kernel=kernel, size=size)
        x, grad = torch.randn(3, channels, *size), torch.randn(3, layer.copies * units, *layer.pooled)
        one, other = (layer.kernels(x, grad, _library.load(isa)) for isa in ("v3", "v4"))
        assert all(map(torch.equal, one, other))


def test_the_first_of_equal_outputs_gets_the_gradient():
    """As in torch: ReLU answers all of an image below zero with zeros, and identical pixels with identical outputs."""
    for name in ("fixed:relu", "fixed:identity", "crelu", "adalin:relu"):
        layer = make_layer(name, channels=2, units=3, kernel=2, size=(7, 7))
        x, grad = torch.ones(2, 2, 7, 7), torch.randn(2, layer.copies * 3, *layer.pooled)
        for mine, exact in zip(layer.kernels(x, grad, native.library()), layer.torch(x, grad), strict=True):
            torch.testing.assert_close(mine, exact.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("place", [(0, 0), (3, 4), (11, 9)])
def test_a_nan_in_an_image_reaches_its_outputs_and_no_other_image(name, place):
    layer = make_layer(name, units=5)
    x, grad = torch.randn(3, 3, 13, 10), torch.randn(3, layer.copies * 5, *layer.pooled)
    expected = layer.kernels(x, grad, native.library(), forward_only=True)
    x[1, 2, place[0], place[1]] = torch.nan
    found = layer.kernels(x, grad, native.library(), forward_only=True)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], expected[[0, 2]])


@pytest.mark.parametrize("name", ["adalin:relu", "adalin:tanh", "crelu"])
def test_gradients_are_as_exact_as_torchs(name):
    layer = make_layer(name, size=(32, 32))
    x, grad = torch.rand(16, 3, 32, 32), torch.randn(16, layer.copies * 16, *layer.pooled)
    torchs, mine = layer.torch(x, grad, torch.float32), layer.kernels(x, grad, native.library())
    for ours, theirs, exact in zip(mine, torchs, layer.torch(x, grad), strict=True):
        assert (ours - exact).norm() <= 3 * (theirs - exact).norm() + 1e-7 * exact.norm()
