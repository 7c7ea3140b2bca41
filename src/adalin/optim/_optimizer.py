"""What an optimiser is: options, a memory of named tensors, and a step on all numbers of a network."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from adalin.structure import Part

State = dict[str, Tensor]
"""An optimiser's memory: `exp_avg.weights`, `step`, ..."""


@dataclass(frozen=True)
class Optimizer(ABC):
    """An elementwise optimiser. Subclasses are frozen dataclasses, whose fields are the options in a method's text.

    It computes what torch.optim's of that name does with the same options, but alphas and norms are not decayed.
    """

    name: ClassVar[str]
    """Name in methods' texts."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that it comes from."""

    @abstractmethod
    def init(self, parts: Sequence[Part]) -> State:
        """Its memory before the first step."""

    @abstractmethod
    def step(self, parts: Sequence[Part], state: Mapping[str, Tensor], lr: float) -> None:
        """One step with the gradients in `parts`, in place."""
