"""What an optimiser is: options, a memory of named tensors, and a step on all numbers of a network."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from adalin import native
from adalin.native import Pass
from adalin.optim._moments import State
from adalin.optim._schedule import SCHEDULES
from adalin.structure import Part


@dataclass(frozen=True, repr=False)
class Optimizer(ABC):
    """An elementwise optimiser. Subclasses are frozen dataclasses, whose fields are the options in a method's text.

    It computes what torch.optim's of that name does with the same options, but alphas and norms are not decayed.
    """

    name: ClassVar[str]
    """Name in methods' texts."""
    title: ClassVar[str] = ""
    """Name in figures; the name if it is empty."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that it comes from."""
    usual_lr: ClassVar[float | None] = 1e-3
    """Learning rate where neither the method nor the run has one; None for the benchmark's."""

    lr: float | None = None
    """Learning rate; None for the run's."""
    weight_decay: float = 0.0
    """Strength of the decay of weights and biases."""
    schedule: str = "constant"
    """Name of the schedule that the learning rate follows within each task."""

    def __post_init__(self) -> None:
        if self.lr is not None:
            self._check("lr", 0 < self.lr < math.inf, "a number > 0")
        self._check("weight_decay", 0 <= self.weight_decay < math.inf, "a number >= 0")
        SCHEDULES.get(self.schedule)

    def __repr__(self) -> str:
        changed = {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) != own.default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    @property
    def decays_in_gradient(self) -> bool:
        """Whether its weight decay is that of an L2 term in the loss."""
        return True

    def lr_factor(self, epoch: int, epochs: int) -> float:
        """What the learning rate is multiplied with in an epoch of a task."""
        return SCHEDULES.get(self.schedule)(epoch / epochs)

    @abstractmethod
    def init(self, parts: Sequence[Part]) -> State:
        """Its memory before the first step."""

    @abstractmethod
    def step(self, parts: Sequence[Part], state: Mapping[str, Tensor], lr: float) -> None:
        """One step with the gradients in `parts`, in place."""

    def native(self, state: Mapping[str, Tensor], parts: Sequence[Part], lr: float) -> Pass | None:
        """The step as one native pass over flat parts; None where an optimiser has no such form."""
        return None

    def prepare(self, state: Mapping[str, Tensor], parts: Sequence[Part], lr: float) -> Callable[[], None]:
        """The step as a function, for those who make it often: a native pass where parts are flat and kernels there."""
        kernels = native.library()
        own = self.native(state, parts, lr) if kernels is not None and are_flat(parts) else None
        if own is None or kernels is None:
            return partial(self.step, parts, state, lr)
        return own.ready(kernels)

    def _check(self, option: str, is_fine: bool, what: str) -> None:
        if not is_fine:
            raise ValueError(f"option {option} of {self.name} must be {what}, not {getattr(self, option)}")


def are_flat(parts: Sequence[Part]) -> bool:
    """Whether parts are such as native passes take: float32 on the CPU, of whole steps of 16."""
    values = [part.value for part in parts]
    is_right = [value.is_cpu and value.is_contiguous() and value.dtype is torch.float32 for value in values]
    return all(is_right) and all(native.padded(value.numel()) == value.numel() for value in values)
