"""Activations of stacked networks: forward, backward and update for tensors of (runs, batch, units).

A kernel holds the activations of one hidden layer for runs that differ in their seed only. Every operation is
elementwise or a batched matrix product, so a run's numbers do not depend on the others in the stack. The gradients that
come in are already scaled by minus the learning rate, so an update is an addition.
"""

from abc import ABC, abstractmethod
from functools import lru_cache

import torch
from torch import Tensor, nn

from adalin.nn import (
    GATES,
    MODULES,
    AdaLin,
    Base,
    CReLU,
    DeepFourier,
    Fixed,
    Interpolation,
    derivative_into,
    gate_into,
    is_prelu,
    module_base,
)


def padded(width: int) -> int:
    """The next multiple of 16, to which widths are padded with inputs and units that stay 0.

    Rows that begin on cache lines make updates of the weights a fifth faster, and products with 16 instead of 10
    outputs three times as fast. And what is not aligned, or left over after a multiple of 16, is computed in another
    way, which may give other bits in other stacks.
    """
    return -(-width // 16) * 16


@lru_cache
def row_of_ones(runs: int, length: int, dtype: torch.dtype) -> Tensor:
    """(runs, 1, length): the product with it is a sum, by the same kernels for any number of runs."""
    return torch.ones(runs, 1, padded(length), dtype=dtype)[..., :length]


class Kernel(ABC):
    """The activations of one hidden layer, for runs that differ in their seed only."""

    alpha: Tensor | None = None
    """Learnable numbers, (runs, 1, units), or (runs, 1, 1) for one per layer; None if there are none."""

    @abstractmethod
    def forward(self, z: Tensor) -> Tensor:
        """The activation of the pre-activations z, which may be overwritten."""

    @abstractmethod
    def backward(self, grad: Tensor) -> Tensor:
        """The gradient for z, given the one for the output of the last forward, which may be overwritten."""

    def add_gradient(self, to: Tensor) -> None:  # noqa: B027, most have no alpha
        """Add alpha's gradient, known after `backward`, to a tensor of its shape."""


class Linear(Kernel):
    def forward(self, z: Tensor) -> Tensor:
        return z

    def backward(self, grad: Tensor) -> Tensor:
        return grad


class ReLU(Kernel):
    def forward(self, z: Tensor) -> Tensor:
        self._out = z.relu_()
        return self._out

    def backward(self, grad: Tensor) -> Tensor:
        return torch.ops.aten.threshold_backward.grad_input(grad, self._out, 0, grad_input=grad)


class FixedBase(Kernel):
    """phi(z), any base."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def forward(self, z: Tensor) -> Tensor:
        y = self._base.phi(z)
        self._slope = torch.empty_like(z)
        derivative_into(self._slope, z, y, self._base)
        return y

    def backward(self, grad: Tensor) -> Tensor:
        return self._slope.mul_(grad)


class WithAlpha(Kernel):
    """Activations with learnable numbers, whose gradient is a sum over the batch of `_products`."""

    alpha: Tensor

    def __init__(self, alpha: Tensor) -> None:
        self.alpha = alpha
        self._products: Tensor

    def add_gradient(self, to: Tensor) -> None:
        runs, batch, units = self._products.shape
        ones = row_of_ones(runs, batch, self._products.dtype)
        if to.shape[-1] == units:
            to.baddbmm_(ones, self._products)
        else:
            to.baddbmm_(torch.bmm(ones, self._products), row_of_ones(runs, units, ones.dtype).mT)


class PReLU(WithAlpha):
    """AdaLin on ReLU."""

    def forward(self, z: Tensor) -> Tensor:
        self._z = z
        return torch.ops.aten._prelu_kernel(z, self.alpha)  # what F.prelu calls, with any shape of alpha

    def backward(self, grad: Tensor) -> Tensor:
        through = torch.ops.aten.threshold_backward(grad, self._z, 0)
        blocked = grad.sub_(through)
        self._products = self._z.mul_(blocked)
        return through.addcmul_(blocked, self.alpha)


class AdaLinKernel(WithAlpha):
    """phi(z) + alpha z g(z), any base and gate."""

    def __init__(self, alpha: Tensor, layer: AdaLin) -> None:
        super().__init__(alpha)
        self._base, self._gate = layer.base, layer._gate

    def forward(self, z: Tensor) -> Tensor:
        y = self._base.phi(z)
        self._slope = torch.empty_like(z)
        derivative_into(self._slope, z, y, self._base)
        if self._gate is GATES.get("none"):
            self._g, self._products = None, z
        else:
            self._g = torch.empty_like(z)
            gate_into(self._g, self._slope, torch.empty_like(z), self._base, self._gate)
            self._products = z * self._g
        return torch.addcmul(y, self._products, self.alpha)

    def backward(self, grad: Tensor) -> Tensor:
        self._products = self._products * grad
        slope = self._slope.add_(self.alpha) if self._g is None else self._slope.addcmul_(self._g, self.alpha)
        return slope.mul_(grad)


def _sigmoid(alpha: Tensor) -> Tensor:
    """Of (runs, 1, units), in the same way for any number of runs.

    With AVX-512 what is left over after a multiple of 32 is computed in another way, which gives other bits; so each
    run gets as many.
    """
    left_over = -alpha.shape[2] % 32
    return torch.sigmoid(nn.functional.pad(alpha, (0, left_over)))[..., : alpha.shape[2]]


class InterpolationKernel(WithAlpha):
    """s z + (1 - s) phi(z), s = sigmoid(alpha)."""

    def __init__(self, alpha: Tensor, base: Base) -> None:
        super().__init__(alpha)
        self._base = base

    def forward(self, z: Tensor) -> Tensor:
        y = self._base.phi(z)
        self._slope, self._rest = self._base.derivative(z, y), z - y
        self._share = _sigmoid(self.alpha)
        return torch.addcmul(y, self._rest, self._share)

    def backward(self, grad: Tensor) -> Tensor:
        self._products = self._rest.mul_(grad).mul_(self._share * (1 - self._share))
        slope = self._slope.addcmul_(1 - self._slope, self._share)
        return slope.mul_(grad)


class CReLUKernel(Kernel):
    def forward(self, z: Tensor) -> Tensor:
        self._out = torch.cat((z, -z), dim=2).relu_()
        return self._out

    def backward(self, grad: Tensor) -> Tensor:
        first, second = torch.ops.aten.threshold_backward(grad, self._out, 0).chunk(2, dim=2)
        return first - second


class FourierKernel(Kernel):
    def forward(self, z: Tensor) -> Tensor:
        self._sin, self._cos = z.sin(), z.cos()
        return torch.cat((self._sin, self._cos), dim=2)

    def backward(self, grad: Tensor) -> Tensor:
        for_sin, for_cos = grad.chunk(2, dim=2)
        return self._cos.mul_(for_sin).addcmul_(self._sin, for_cos, value=-1)


class ZeroPadding(Kernel):
    """Keeps at 0 the units that a layer was padded with, where the activation of 0 is not 0."""

    def __init__(self, kernel: Kernel, units: int, padded: int) -> None:
        self._kernel, self._units, self._padded = kernel, units, padded
        self.alpha = kernel.alpha

    def forward(self, z: Tensor) -> Tensor:
        y = self._kernel.forward(z)
        y.unflatten(2, (-1, self._padded))[..., self._units :] = 0
        return y

    def backward(self, grad: Tensor) -> Tensor:
        return self._kernel.backward(grad)

    def add_gradient(self, to: Tensor) -> None:
        self._kernel.add_gradient(to)


def has_kernel(module: nn.Module) -> bool:
    """Whether an activation can be trained in a stack."""
    if isinstance(module, AdaLin | Interpolation):
        return type(module) in (AdaLin, Interpolation) and module.dim in (1, -1)
    return type(module) in (CReLU, DeepFourier, Fixed) or type(module) in MODULES


def make_padded_kernel(module: nn.Module, alpha: Tensor | None, *, units: int, biases: Tensor) -> Kernel:
    """Like `make_kernel`, for a layer with padding: `biases` (runs, 1, units with padding) are its own."""
    kernel = make_kernel(module, alpha)
    moves_zero = bool(kernel.forward(torch.zeros_like(biases)).any())
    padded = biases.shape[-1]
    return ZeroPadding(kernel, units, padded) if moves_zero and padded > units else kernel


def make_kernel(module: nn.Module, alpha: Tensor | None) -> Kernel:
    """The kernel for an activation that several runs share; alpha holds their learnable numbers."""
    if isinstance(module, AdaLin | Interpolation):
        assert alpha is not None
        if isinstance(module, Interpolation):
            return InterpolationKernel(alpha, module.base)
        return PReLU(alpha) if is_prelu(module.base, module._gate) else AdaLinKernel(alpha, module)
    if isinstance(module, CReLU):
        return CReLUKernel()
    if isinstance(module, DeepFourier):
        return FourierKernel()
    base = module.base if isinstance(module, Fixed) else module_base(module)
    if base.name == "identity":
        return Linear()
    return ReLU() if base.phi is torch.relu else FixedBase(base)
