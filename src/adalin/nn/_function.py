"""AdaLin as one differentiable function: f(x) = phi(x) + alpha * x * stopgrad(g(x)), equation 2 of the paper.

The gate's stop-gradient means that the derivatives are, by definition,

    df/dx = phi'(x) + alpha * g(x)        df/dalpha = x * g(x)

so both are written out, and the backward pass needs nothing but x and alpha.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from adalin.nn import _fused, _native
from adalin.nn._bases import Base
from adalin.nn._gates import Gate

Backward = Callable[[Tensor, Tensor, Tensor, Base, Gate], tuple[Tensor, Tensor]]
"""(grad, x, alpha, base, gate) -> the gradients for x and alpha."""


def adalin(x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> Tensor:
    """f(x), with an alpha of x's rank that broadcasts to x. The result has x's dtype; half precision uses float32."""
    if not x.is_floating_point():
        raise ValueError(f"AdaLin needs a floating-point input, not {x.dtype}")
    # torch.func differentiates and maps the plain formula by itself, and torch.jit cannot save a Python function.
    if torch._C._are_functorch_transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return _forward(x, alpha.to(_compute_dtype(x)), base, gate).to(x.dtype)
    if _is_torchs_prelu(x, alpha, base, gate):
        return torch._prelu_kernel(x, alpha)
    return _AdaLin.apply(x, alpha, base, gate)


def _is_torchs_prelu(x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> bool:
    """Whether torch has this function of a small tensor, where a call costs more than the arithmetic.

    At -inf torch's has no limit for alpha = 0.
    """
    if _native.AVAILABLE or not _fused.is_prelu(base, gate) or not _fused.usable(x):
        return False
    is_small = x.numel() <= _fused.SMALL and x.is_contiguous()  # other strides are summed up in another order
    return is_small and x.dtype is alpha.dtype is _compute_dtype(x) and _fused.all_finite(x)


def saturation(x: Tensor, base: Base, gate: Gate) -> Tensor:
    """g(x), the gate's value at each element. Carries no gradient."""
    x = _finite(x.detach().to(_compute_dtype(x)))
    return _gate_value(base.derivative(x, None), base, gate)


class _AdaLin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> Tensor:
        ctx.save_for_backward(x, alpha)
        ctx.base, ctx.gate, ctx.fused = base, gate, False
        ctx.native = _native.usable(x, alpha) and _native.kernel(base, gate) is not None
        if ctx.native:
            y, ctx.finite = _native.forward(x, alpha, base, gate)
            if y is not None:
                return y if ctx.finite else _with_limits(y, x, alpha, base, gate)
        alpha, ctx.fused = alpha.to(_compute_dtype(x)), _fused.usable(x)
        if not ctx.fused:
            return _forward(x, alpha, base, gate).to(x.dtype)
        ctx.finite = _fused.all_finite(x)
        y = _fused.forward(x if ctx.finite else x.masked_fill(~x.isfinite(), 0), alpha, base, gate).to(x.dtype)
        return y if ctx.finite else _with_limits(y, x, alpha, base, gate)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, alpha = ctx.saved_tensors
        # With gradients enabled somebody differentiates the gradient, which takes the plain formula; so does a batch of
        # gradients, which cannot be written into tensors without the batch.
        written_out = ctx.native or ctx.fused
        backward = _backward
        if written_out and not torch.is_grad_enabled() and not _is_batched(grad):
            is_native = ctx.native and _native.usable(grad, alpha)
            backward = _native.backward if is_native else _fused.backward
            if not ctx.finite:
                backward = partial(_backward_with_limits, backward)
        dtype = _compute_dtype(x)
        grad_x, grad_alpha = backward(grad.to(dtype), x.to(dtype), alpha.to(dtype), ctx.base, ctx.gate)
        return grad_x.to(x.dtype), grad_alpha.to(alpha.dtype), None, None


def _with_limits(y: Tensor, x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> Tensor:
    """y with f(x) where x is not finite."""
    there = ~x.isfinite()
    y[there] = _forward(x[there], alpha.expand_as(x)[there], base, gate).to(y.dtype)
    return y


def _backward_with_limits(
    backward: Backward, grad: Tensor, x: Tensor, alpha: Tensor, base: Base, gate: Gate
) -> tuple[Tensor, Tensor]:
    """The gradients for an x that is not finite everywhere: what is there changes no other element's bits."""
    there = ~x.isfinite()
    grad_x, grad_alpha = backward(grad.masked_fill(there, 0), x.masked_fill(there, 0), alpha, base, gate)
    grad_x[there], to_alpha = _gradients(grad[there], x[there], alpha.expand_as(x)[there], base, gate)
    return grad_x, grad_alpha + torch.zeros_like(x).masked_scatter_(there, to_alpha).sum_to_size(alpha.shape)


def _forward(x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> Tensor:
    """f(x), computed in alpha's dtype."""
    y = base.phi(_finite(x))  # in x's own dtype: alpha = 0 must give torch's phi to the bit
    z = _finite(x.to(alpha.dtype))
    slope = base.derivative(z, y if y.dtype == z.dtype else None).detach()
    injected = alpha * _gate_value(slope, base, gate)
    slope = slope + injected
    # At an infinite x the sum may be inf - inf or 0 * inf, while f has a limit: x times its slope, or phi's own.
    limit = torch.where(slope == 0, y, x * slope)
    return torch.where(x.abs() == torch.inf, limit, y + z * injected)


def _backward(grad: Tensor, x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> tuple[Tensor, Tensor]:
    grad_x, to_alpha = _gradients(grad, x, alpha, base, gate)
    return grad_x, _sum_to(to_alpha, alpha)


def _gradients(grad: Tensor, x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> tuple[Tensor, Tensor]:
    """The gradient for x, and each element's part of alpha's."""
    slope = base.derivative(_finite(x), None)
    g = _gate_value(slope, base, gate)
    return grad * (slope + alpha * g), grad * torch.where(g == 0, g, x * g)


def _sum_to(x: Tensor, alpha: Tensor) -> Tensor:
    """The sum of x over the axes along which alpha broadcasts."""
    columns = x.is_cpu and x.dim() == 2 and alpha.shape[0] == 1 and alpha.shape[1] > 1
    if columns and torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu"):  # that rounds products
        return x.new_ones(1, x.shape[0]) @ x  # inductor reduces columns slowly
    return x.sum_to_size(alpha.shape)


def _gate_value(slope: Tensor, base: Base, gate: Gate) -> Tensor:
    ratio = slope.detach().abs()  # detach stops reverse and forward mode, no_grad only the first
    if base.lipschitz != 1:
        ratio = ratio * base.inverse_lipschitz[ratio.dtype]
    return gate(ratio.clamp_max(1)).detach()


def _is_batched(x: Tensor) -> bool:
    """Inside `torch.func.vmap`, or the older one behind `is_grads_batched` and `jacobian(vectorize=True)`."""
    return torch._C._functorch.is_batchedtensor(x) or torch._C._functorch.is_legacy_batchedtensor(x)


def _compute_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _finite(x: Tensor) -> Tensor:
    """x with the infinities moved to the largest finite number, where every base and derivative has its limit."""
    largest = torch.finfo(x.dtype).max
    return x.clamp(-largest, largest)
