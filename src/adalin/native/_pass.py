"""Steps of optimisers over flat tensors, as native passes."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import torch
from torch import Tensor

from adalin.native._library import library
from adalin.native._memory import STEP, address_of, real_type
from adalin.native._noise import Perturbation

_pointer, _integer, _double = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class PassKind(IntEnum):
    """Optimisers, in the order of `pass.h`."""

    SGD = 0
    ADAM = 1
    RMSPROP = 2


class _Pass(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "nesterov")),
        *((name, ctypes.c_int64) for name in ("decoupled",)),
        *((name, _double) for name in ("lr", "momentum", "beta", "epsilon", "decay", "shrink")),
        ("steps", _pointer),
        ("perturbation", _pointer),
    )


class _Part(ctypes.Structure):
    _fields_ = (
        *((name, _pointer) for name in ("value", "grad", "first", "second")),
        *((name, _integer) for name in ("count", "is_weight")),
    )


@dataclass(frozen=True, eq=False)
class Pass:
    """One step of an optimiser over flat tensors, whose lengths are multiples of 16. Called, it makes it."""

    kind: PassKind
    """Optimiser of the pass."""
    values: Sequence[Tensor]
    """Parameters that it moves."""
    grads: Sequence[Tensor]
    """Their gradients."""
    are_weights: Sequence[bool]
    """Flags of the parameters that are shrunk and decayed."""
    lr: float
    """Learning rate."""
    momentum: float = 0.0
    """Momentum of SGD and RMSprop, beta1 of Adam."""
    beta: float = 0.0
    """Beta2 of Adam, alpha of RMSprop."""
    epsilon: float = 0.0
    """Number added to the root."""
    weight_decay: float = 0.0
    """Strength of the decay."""
    decoupled: bool = False
    """Whether the decay scales weights (AdamW), and is not part of the gradient."""
    nesterov: bool = False
    """Whether SGD takes Nesterov's momentum."""
    shrink: float = 1.0
    """Number that weights are multiplied with before anything else."""
    first: Sequence[Tensor] = ()
    """Momentum, or mean of gradients, of each tensor; empty without."""
    second: Sequence[Tensor] = ()
    """Mean of squared gradients; empty without."""
    steps: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))
    """Steps made so far, float64; a pass adds one."""
    perturbation: Perturbation | None = None
    """Change of the first tensor after everything else."""
    _made: "dict[torch.dtype, tuple[_Pass, ctypes.Array[_Part]]]" = field(default_factory=dict, init=False, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether a step scales weights and adds the gradient times a number, and nothing more."""
        return self.kind == PassKind.SGD and self.momentum == 0

    def __call__(self) -> None:
        """Make it."""
        found = library()
        assert found is not None, "the caller looks first"
        self.ready(found)()

    def ready(self, kernels: ctypes.CDLL) -> Callable[[], None]:
        """What makes it again and again, by this library."""
        own, parts = self.structures(real_type(kernels))

        def move() -> None:  # by `self` the tensors live on whose addresses are in there
            kernels.adalin_pass(ctypes.addressof(own), ctypes.addressof(parts), len(self.values))

        return move

    def structures(self, dtype: torch.dtype) -> "tuple[_Pass, ctypes.Array[_Part]]":
        """What kernels take; made once, as tensors stay where they are."""
        if dtype not in self._made:
            self._made[dtype] = self._checked(dtype)
        return self._made[dtype]

    def _checked(self, dtype: torch.dtype) -> "tuple[_Pass, ctypes.Array[_Part]]":
        missing: list[Tensor | None] = [None] * len(self.values)
        together = zip(
            self.values, self.grads, self.first or missing, self.second or missing, self.are_weights, strict=True
        )
        parts = [_part(*own, dtype=dtype) for own in together]
        own = _Pass(
            self.kind,
            self.nesterov,
            self.decoupled,
            self.lr,
            self.momentum,
            self.beta,
            self.epsilon,
            self.weight_decay,
            self.shrink,
            address_of(self.steps, "the number of steps", torch.float64, 1),
            None if self.perturbation is None else self.perturbation.address,
        )
        return own, (_Part * len(parts))(*parts)


def _part(
    value: Tensor, grad: Tensor, first: Tensor | None, second: Tensor | None, is_weight: bool, dtype: torch.dtype
) -> _Part:
    count = value.numel()
    if count % STEP:
        raise ValueError(f"an optimiser's tensor has {count} elements, which is no multiple of {STEP}")
    moments = [None if own is None else address_of(own, "a moment", dtype, count) for own in (first, second)]
    return _Part(
        address_of(value, "a parameter", dtype, count),
        address_of(grad, "a gradient", dtype, count),
        *moments,
        count,
        is_weight,
    )
