"""The same formulas in native kernels, where these are built: float32 on the CPU, built-in bases, named gates."""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from adalin import native
from adalin.native import dense_channels_last
from adalin.nn._bases import Base
from adalin.nn._gates import GATES, Gate, none

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

# What each base's kernel is, and its numbers, from the arguments that the base was made with.
KERNELS: dict[str, Callable[..., tuple[str, tuple[float, ...]]]] = {
    "relu": lambda: ("RELU", ()),
    "tanh": lambda: ("TANH", ()),
    "sigmoid": lambda: ("SIGMOID", ()),
    "gelu": lambda approximate="none": ("GELU" if approximate == "none" else "GELU_TANH", ()),
    "gelu_tanh": lambda: ("GELU_TANH", ()),
    "silu": lambda: ("SILU", ()),
    "mish": lambda: ("MISH", ()),
    "elu": lambda alpha=1.0: ("EXPONENTIAL", (1.0, alpha, 1.0)),
    "selu": lambda: ("EXPONENTIAL", (SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1.0)),
    "celu": lambda alpha=1.0: ("EXPONENTIAL", (1.0, alpha, 1 / alpha)),
    "leaky_relu": lambda negative_slope=0.01: ("LEAKY_RELU", (negative_slope,)),
    "softplus": lambda beta=1.0, threshold=20.0: ("SOFTPLUS", (beta, threshold, 1 / beta)),
    "softsign": lambda: ("SOFTSIGN", ()),
    "hardswish": lambda: ("HARDSWISH", ()),
    "hardtanh": lambda min_val=-1.0, max_val=1.0: ("HARDTANH", (min_val, max_val)),
    "relu6": lambda: ("HARDTANH", (0.0, 6.0)),
    "sin": lambda: ("SIN", ()),
    "identity": lambda: ("IDENTITY", ()),
}

AVAILABLE = native.library() is not None  # at import, so that a library that does not fit is refused at once

Layout = tuple[int, int, int]
"""A tensor in memory as (n, c, s), alpha along c."""


def native_form(base: Base, gate: Gate) -> tuple[str, str, tuple[float, ...]] | None:
    """Names of a base and a gate among the native kernels, and the base's numbers; None if one is not built in."""
    name = next((name for name, known in GATES.listing().items() if known is gate), None)
    if base.arguments is None or name is None:
        return None
    try:
        kind, numbers = KERNELS[base.name](*base.arguments)
    except ZeroDivisionError:
        return None
    if base.name == "relu" and base.binary and gate is not none:
        kind = "PRELU"
    return kind, name, tuple(map(float, numbers))


@lru_cache
def kernel(base: Base, gate: Gate) -> native.Function | None:
    """The native kernel for a base with a gate, or None: no native library, or not built in."""
    form = native_form(base, gate)
    if form is None or not AVAILABLE:
        return None
    kind, name, numbers = form
    return native.Function(kind, name, base.inverse_lipschitz[torch.float32], numbers)


def usable(x: Tensor, alpha: Tensor) -> bool:
    """Two plain eager float32 tensors with memory of their own, on the CPU."""
    if torch.compiler.is_compiling() or not _is_plain(x) or not _is_plain(alpha):
        return False
    if x.numel() == 0 or x.layout is not torch.strided or x.is_neg():
        return False
    address = x.data_ptr()
    return address != 0 and address % 4 == 0


def _is_plain(x: Tensor) -> bool:
    return (type(x) is Tensor or type(x) is torch.nn.Parameter) and x.dtype is torch.float32 and x.is_cpu


def forward(x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> tuple[Tensor | None, bool]:
    """f(x), and whether all of x is finite: where it is not, f is not right.

    None where all alphas are 0, and where a mode of torch's makes tensors without memory.
    """
    x = _dense(x)
    y = torch.empty_like(x)
    if type(y) is not Tensor:
        return None, False
    outcome = native.adalin_forward(_kernel_of(base, gate), x, alpha.contiguous(), y, _layout(x, alpha))
    return None if outcome == native.Outcome.ZERO else y, outcome == native.Outcome.FINITE


def backward(grad: Tensor, x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> tuple[Tensor, Tensor]:
    """The gradients for a finite x and for alpha."""
    x, alpha = _dense(x), alpha.contiguous()
    if grad.stride() != x.stride():
        grad = torch.empty_like(x).copy_(grad)
    grad_x, grad_alpha = torch.empty_like(x), torch.empty_like(alpha)
    native.adalin_backward(_kernel_of(base, gate), x, alpha, grad, grad_x, grad_alpha, _layout(x, alpha))
    return grad_x, grad_alpha


def _kernel_of(base: Base, gate: Gate) -> native.Function:
    found = kernel(base, gate)
    assert found is not None, "the caller looks first"
    return found


def _dense(x: Tensor) -> Tensor:
    return x if x.is_contiguous() or dense_channels_last(x) else x.contiguous()


def _layout(x: Tensor, alpha: Tensor) -> Layout:
    count = alpha.numel()
    if count == 1:
        return 1, 1, x.numel()
    sizes, axis = list(x.shape), alpha.shape.index(count)
    if not x.is_contiguous():  # channels last
        sizes.append(sizes.pop(1))
        axis = x.dim() - 1 if axis == 1 else axis - (axis > 1)
    return math.prod(sizes[:axis]), count, math.prod(sizes[axis + 1 :])
