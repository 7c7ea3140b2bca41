"""The layer's kernels: tensors in, checked, and out."""

import ctypes
import math
from enum import IntEnum

import torch
from torch import Tensor

from adalin.native._library import library


class Base(IntEnum):
    """The bases of `bases.h`, in its order."""

    PRELU = 0
    RELU = 1
    TANH = 2
    SIGMOID = 3
    GELU = 4
    GELU_TANH = 5
    SILU = 6
    MISH = 7
    EXPONENTIAL = 8
    LEAKY_RELU = 9
    SOFTPLUS = 10
    SOFTSIGN = 11
    HARDSWISH = 12
    HARDTANH = 13
    SIN = 14
    IDENTITY = 15


class Outcome(IntEnum):
    """What the forward pass of `layer.cpp` says of its input."""

    ZERO = 0
    """All alphas are 0: nothing is written, since only torch's own phi has phi's bits."""
    FINITE = 1
    NOT_FINITE = 2
    """The result is right but where x is infinite or NaN."""


OUTCOMES = tuple(Outcome)
GATES = ("cosine", "linear", "quadratic", "none")


class _Settings(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_int32),
        ("gate", ctypes.c_int32),
        ("inverse_lipschitz", ctypes.c_float),
        ("numbers", ctypes.c_float * 3),
    )


class Function:
    """A base with its numbers, L and a gate, as the kernels take it.

    Args:
        base: one of `Base`, by its name.
        gate: one of `GATES`.
        inverse_lipschitz: 1 / L, rounded so that L * (1 / L) is not below 1.
        numbers: the base's own, at most three; `bases.h` says what they are.
    """

    def __init__(self, base: str, gate: str, inverse_lipschitz: float, numbers: tuple[float, ...] = ()) -> None:
        padded = (*numbers, 0.0, 0.0, 0.0)[:3]
        self._settings = _Settings(Base[base], GATES.index(gate), inverse_lipschitz, padded)
        self.address = ctypes.addressof(self._settings)


def adalin_forward(function: Function, x: Tensor, alpha: Tensor, y: Tensor, shape: tuple[int, int, int]) -> Outcome:
    """y = f(x), with x in memory as (n, c, s) = `shape` and alpha along c."""
    count = math.prod(shape)
    status = _native().adalin_forward(
        function.address,
        _pointer(x, "x", count),
        _pointer(alpha, "alpha", shape[1]),
        _pointer(y, "y", count),
        *shape,
        torch.get_num_threads(),
    )
    return OUTCOMES[_checked(status)]


def adalin_backward(
    function: Function,
    x: Tensor,
    alpha: Tensor,
    grad: Tensor,
    grad_x: Tensor,
    grad_alpha: Tensor,
    shape: tuple[int, int, int],
) -> None:
    """The gradients for a finite x and for alpha, from `grad`, which lies in memory as x does."""
    count = math.prod(shape)
    status = _native().adalin_backward(
        function.address,
        _pointer(x, "x", count),
        _pointer(alpha, "alpha", shape[1]),
        _pointer(grad, "grad", count),
        _pointer(grad_x, "grad_x", count),
        _pointer(grad_alpha, "grad_alpha", shape[1]),
        *shape,
        torch.get_num_threads(),
    )
    _checked(status)


def points(function: Function, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """phi(x), phi'(x) and g(x), elementwise; the length of x is a multiple of 16."""
    if x.numel() % 16:
        raise ValueError(f"x has {x.numel()} elements, which is no multiple of 16")
    outputs = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    pointers = [_pointer(tensor, "x", x.numel()) for tensor in (x, *outputs)]
    _native().adalin_points(function.address, *pointers, x.numel())
    return outputs


def gate(name: str, room: Tensor) -> Tensor:
    """The gate of that name at 1 - |phi'| / L; the length of `room` is a multiple of 16."""
    if room.numel() % 16:
        raise ValueError(f"room has {room.numel()} elements, which is no multiple of 16")
    out = torch.empty_like(room)
    pointers = [_pointer(tensor, "room", room.numel()) for tensor in (room, out)]
    _native().adalin_gate(GATES.index(name), *pointers, room.numel())
    return out


def _native() -> ctypes.CDLL:
    found = library()
    assert found is not None, "the caller looks first"
    return found


def _checked(status: int) -> int:
    if status < 0:
        raise MemoryError("no memory for the sums of a native kernel")
    return status


def _pointer(tensor: Tensor, name: str, count: int) -> int:
    """The address of a tensor that a kernel may read or write `count` floats of."""
    if tensor.dtype is not torch.float32 or not tensor.is_cpu:
        raise ValueError(f"{name} must be float32 on the CPU, not {tensor.dtype} on {tensor.device}")
    if tensor.numel() != count:
        raise ValueError(f"{name} has {tensor.numel()} elements, not {count}")
    if not (tensor.is_contiguous() or dense_channels_last(tensor)):
        raise ValueError(f"{name} is not contiguous: its strides are {tensor.stride()} for shape {tuple(tensor.shape)}")
    address = tensor.data_ptr()
    if address % 4 or (address == 0 and count > 0):
        raise ValueError(f"{name} has no aligned memory of its own")
    return address


def dense_channels_last(x: Tensor) -> bool:
    """Whether x is whole in memory with its channels as the last axis."""
    if x.dim() == 4:
        return x.is_contiguous(memory_format=torch.channels_last)
    return x.dim() == 5 and x.is_contiguous(memory_format=torch.channels_last_3d)
