"""Rules: what acts on the weights while a network trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

Fresh = Callable[[], Sequence[Tensor]]
"""Newly initialised weights of the same shapes, drawn anew in every step."""


@dataclass(frozen=True)
class Rule:
    """Acts on weights and biases; alphas are left alone. Subclasses are frozen dataclasses without state.

    Every tensor of `weights` has a leading axis for the runs that are trained together, and may be transposed or padded
    with zeros. So a rule works in place, elementwise, keeps zeros at zero, and takes random numbers from `fresh` only,
    whose tensors have the same layout.
    """

    name: ClassVar[str]
    """Name in methods' texts."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that it comes from."""
    scales_only: ClassVar[bool] = False
    """True if it only scales all weights by one number: a first layer may then be trained by its outputs."""

    def restarts(self, task: int) -> bool:
        """Whether this task begins with a new network."""
        return False

    def start_task(self, weights: Sequence[Tensor], fresh: Fresh, task: int) -> None:
        """Before the first step of a task."""

    def before_update(self, weights: Sequence[Tensor], lr: float) -> None:
        """After the gradient was computed, before it is applied."""

    def after_update(self, weights: Sequence[Tensor], fresh: Fresh) -> None:
        """After each step."""


def overrides(rule: Rule, hook: str) -> bool:
    """Whether a rule has a hook of its own."""
    return getattr(type(rule), hook) is not getattr(Rule, hook)
