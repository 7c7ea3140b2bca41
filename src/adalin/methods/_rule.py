"""Rules: what acts on a network while it trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from adalin.structure import Network


@dataclass(frozen=True, eq=False)
class Now:
    """The moment at which a rule acts."""

    task: int
    """Number of the task, from 0."""
    step: int
    """Number of the step in the task, from 0."""
    steps: int
    """Number of steps made since the run began."""
    lr: float
    """Learning rate."""
    fresh: Callable[[], Sequence[Tensor]]
    """Gives the weights of a newly initialised network, one tensor for each of the network's `weights`, drawn for this
    moment. The next call overwrites them."""


@dataclass(frozen=True)
class Rule:
    """Acts on one network in place. Subclasses are frozen dataclasses without state, whose fields are their options.

    A hook that is not overridden costs nothing: without one for each step, a network trains without stopping. All
    randomness comes from `now.fresh`, so that a run goes on exactly where it was stopped.
    """

    name: ClassVar[str]
    """Name in methods' texts."""
    title: ClassVar[str] = ""
    """Name in figures; the name if it is empty."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that it comes from."""

    @property
    def period(self) -> int | None:
        """Number of steps after which it acts again: 1 for each step, None if it acts at ends of tasks only."""
        return 1 if overrides(self, "before_step") or overrides(self, "after_step") else None

    @property
    def decay(self) -> float:
        """Strength of L2 regularisation, if that is all that it does; then whoever trains may do it by itself."""
        return 0.0

    @property
    def perturbation(self) -> tuple[float, float] | None:
        """Its (shrink, noise), if weights * shrink + `now.fresh()` * noise after each step is all that it does; then
        whoever trains may do it by itself."""
        return None

    def restarts(self, task: int) -> bool:
        """Whether this task begins with a new network."""
        return False

    def start_task(self, net: Network, now: Now) -> None:
        """Before the first step of a task."""

    def before_step(self, net: Network, now: Now) -> None:
        """With the gradients of a step in place, before the optimiser moves anything."""

    def after_step(self, net: Network, now: Now) -> None:
        """After a step."""

    def end_task(self, net: Network, now: Now) -> None:
        """After the last step of a task, before the network is measured."""


def overrides(rule: Rule, hook: str) -> bool:
    """Whether a rule has a hook of its own."""
    return getattr(type(rule), hook) is not getattr(Rule, hook)
