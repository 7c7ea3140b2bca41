"""The same formulas for eager tensors on the CPU, where fresh memory costs more than arithmetic.

A large temporary is paid for in page faults, so these kernels walk over slices of the batch and write into two
scratch buffers that are kept. They assume finite numbers, which one summation per call makes sure of; what is not
finite takes the plain formulas, each element alone.
"""

import math
import threading
from collections.abc import Iterator
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from adalin.nn._bases import Base
from adalin.nn._gates import Gate, cosine, linear

SLICE = 1 << 19  # elements, 2 MB of float32: the fastest of 2^16 to 2^19
SMALL = SLICE // 32  # elements for which fresh memory costs little

# cos(pi/2 r) = (C + B (w + A)^2) * (1 + K (1 - w)) * -K (1 - w), with w = r^2, in four passes over memory. Off by
# 2.4e-7 at most in float32, exactly 0 at r = 1, and exactly 1 at r = 0 whether or not the CPU fuses product and sum.
A, B, C, K = -249 / 32, -0.03728531301021576, -3.4491126537323, 623 / 4096


def usable(x: Tensor) -> bool:
    """A plain eager CPU tensor."""
    if torch.compiler.is_compiling():
        return False
    return type(x) in (Tensor, torch.nn.Parameter) and x.is_cpu


def forward(x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> Tensor:
    """f(x), computed in alpha's dtype."""
    y = base.phi(x)  # in x's own dtype: alpha = 0 must give torch's phi to the bit
    x, out = x.to(alpha.dtype), y.to(alpha.dtype)
    if is_prelu(base, gate):
        return out.addcmul_(torch.sub(x, out, out=_scratch(x)), alpha)
    for x_, out_, g_, scratch_ in _slices(alpha, x, out):
        derivative_into(g_, x_, out_ if y.dtype == out.dtype else None, base)
        gate_into(g_, g_, scratch_, base, gate)
        out_.addcmul_(g_.mul_(x_), alpha)
    return out


def backward(grad: Tensor, x: Tensor, alpha: Tensor, base: Base, gate: Gate) -> tuple[Tensor, Tensor]:
    # Sums over memory that is strided otherwise would round otherwise.
    x, grad = (tensor if _is_dense(tensor) else tensor.contiguous() for tensor in (x, grad))
    if is_prelu(base, gate):
        through = torch.ops.aten.threshold_backward(grad, x, 0)
        finite = all_finite(grad)
        blocked = torch.sub(grad, through, out=_scratch(grad)) if finite else grad.masked_fill(x > 0, 0)
        # One sum over the whole batch, as in PyTorch's PReLU: the same bits.
        # A copy: where there is nothing to sum up it would be the scratch buffer itself.
        return through.addcmul_(blocked, alpha), blocked.mul_(x).sum_to_size(alpha.shape).clone()
    grad_x, grad_alpha = torch.empty_like(x), torch.zeros_like(alpha)
    for x_, grad_, grad_x_, g_, scratch_ in _slices(alpha, x, grad, grad_x):
        derivative_into(grad_x_, x_, None, base)
        gate_into(g_, grad_x_, scratch_, base, gate)
        grad_x_.addcmul_(g_, alpha).mul_(grad_)
        grad_alpha += g_.mul_(x_).mul_(grad_).sum_to_size(alpha.shape)
    return grad_x, grad_alpha


def all_finite(x: Tensor) -> bool:
    """Whether there are no infinities and NaNs; it may also say no where the sum overflows."""
    return math.isfinite(x.sum().item())


def is_prelu(base: Base, gate: Gate) -> bool:
    """Whether the linear term is there where x < 0, and nowhere else."""
    return base.phi is torch.relu and base.binary and gate is linear


def _slices(alpha: Tensor, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors, of one shape, in slices of their first axis, each with two scratch buffers.

    There is one slice where they are small or alpha runs along the first axis.
    """
    x = tensors[0]
    if x.numel() <= SLICE or alpha.shape[0] > 1:
        yield *tensors, _scratch(x), _scratch(x, 1)
        return
    rows = max(1, SLICE * x.shape[0] // x.numel())
    for slices in zip(*(tensor.split(rows) for tensor in tensors), strict=True):
        yield *slices, _scratch(slices[0]), _scratch(slices[0], 1)


class _Kept(threading.local):
    """Scratch memory that stays from call to call, with its pages mapped."""

    def __init__(self) -> None:
        self.buffers: dict[torch.dtype, Tensor] = {}


_kept = _Kept()


def _scratch(like: Tensor, which: int = 0) -> Tensor:
    """One of two buffers of a slice's shape and layout."""
    if not SMALL <= like.numel() <= SLICE or not _is_dense(like):
        return torch.empty_like(like)
    if like.dtype not in _kept.buffers:
        with torch.inference_mode(False):  # or no later call could write to it
            _kept.buffers[like.dtype] = torch.empty(2 * SLICE, dtype=like.dtype, device="cpu")
    return _kept.buffers[like.dtype].as_strided(like.shape, like.stride(), which * SLICE)


def _is_dense(x: Tensor) -> bool:
    return x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))


def derivative_into(out: Tensor, x: Tensor, y: Tensor | None, base: Base) -> None:
    """out = phi'(x); y is phi(x) if it is at hand."""
    if base.phi is torch.tanh and y is not None:
        torch.addcmul(_scalar(1.0, x.dtype), y, y, value=-1, out=out)  # 1 - tanh^2
    elif base.phi is torch.tanh:
        torch.mul(x, 2, out=out).sigmoid_()
        torch.ops.aten.sigmoid_backward.grad_input(_scalar(4.0, x.dtype), out, grad_input=out)  # 4 s (1 - s)
    elif base.phi is F.gelu:
        torch.ops.aten.gelu_backward.grad_input(out.fill_(1), x, grad_input=out)
    else:
        out.copy_(base.derivative(x, y))


def gate_into(out: Tensor, slope: Tensor, scratch: Tensor, base: Base, gate: Gate) -> None:
    """out = gate(|slope| / L); scratch is overwritten."""
    dtype = slope.dtype
    ratio = slope if base.lipschitz == 1 else torch.mul(slope, base.inverse_lipschitz[dtype], out=out)
    if gate is not cosine or dtype != torch.float32:
        out.copy_(gate(torch.abs(ratio, out=scratch).clamp_max_(1)))
        return
    if base.phi is not torch.tanh or base.lipschitz < 1:  # tanh's slope never rounds to more than 1
        ratio = torch.clamp(ratio, -1, 1, out=out)
    quadratic = torch.addcmul(_scalar(A, dtype), ratio, ratio, out=scratch)
    torch.addcmul(_scalar(C, dtype), quadratic, quadratic, value=B, out=quadratic)
    torch.ops.aten.tanh_backward.grad_input(_scalar(-K, dtype), ratio, grad_input=out)  # -K (1 - w)
    torch.ops.aten.sigmoid_backward.grad_input(quadratic, out, grad_input=out)  # quadratic * (1 - out) * out


@lru_cache
def _scalar(value: float, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(value, dtype=dtype, device="cpu")
