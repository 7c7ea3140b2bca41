"""Gates of AdaLin: functions of r = |phi'(x)| / L in [0, 1] that are 0 at r = 1 and 1 at r = 0.

Equation 2 of the paper has the cosine, its appendix "Different choices of Gating Function" the linear and the quadratic
form, its appendix "Why the gating mechanism matters" the layer without one.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from adalin._registry import Registry, UnknownNameError

Gate = Callable[[Tensor], Tensor]

# cos(pi/2 r) = (1 - r^2) Q(r^2), with Q(0) = 1. Written so, the gate is exactly 1 at r = 0 and exactly 0 at r = 1 in
# every dtype, which cos(pi/2 * r) itself is not, and costs less than a cosine. The coefficients (of w^1, w^2, ...) are
# the minimax ones for float32, where the gate is off by 1.4e-7 at most (torch.cos: 1.2e-7), and for float64 they
# interpolate Q at Chebyshev nodes of [0, 1] to 3e-20.
COSINE = {
    torch.float32: (-0.23369870257934902, 0.01995323181397376, -0.0008581995115574398),
    torch.float64: (
        -0.23370055013616983,
        0.019968957764878173,
        -0.0008945229984745,
        2.473727636245397e-05,
        -4.64765999767534186e-07,
        6.3214510177022521e-09,
        -6.5111755357750443e-11,
        5.1251493529553555e-13,
    ),
}


def cosine(r: Tensor) -> Tensor:
    """cos(pi/2 r), equation 2."""
    w = r * r
    *lower, highest = COSINE[r.dtype]
    q = w * highest
    for coefficient in reversed(lower):
        q = (q + coefficient) * w
    q = q + 1
    return q - w * q


def linear(r: Tensor) -> Tensor:
    """1 - r."""
    return 1 - r


def quadratic(r: Tensor) -> Tensor:
    """1 - r^2."""
    return 1 - r * r


def none(r: Tensor) -> Tensor:
    """1: the linear term is always on."""
    return torch.ones_like(r)


GATES: Registry[Gate] = Registry(
    "gate", {"cosine": cosine, "linear": linear, "quadratic": quadratic, "none": none}, plugins=False
)
"""Gates by name."""


def as_gate(gate: str | Gate) -> Gate:
    """The gate that a name stands for; a callable of r stands for itself."""
    if callable(gate):
        return gate
    try:
        return GATES.get(gate)
    except UnknownNameError as error:
        raise ValueError(f"{error}, or a callable") from None


def gate_name(gate: Gate) -> str:
    return getattr(gate, "__name__", repr(gate))
