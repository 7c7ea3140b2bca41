"""What happens while runs are trained, as those who train tell it to those who watch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from adalin.runs._position import Position
from adalin.runs._run import Run

Cause = Literal["death", "crash", "in use", "copy"]
"""Why a run failed, where another attempt may end better: the death of its process, an exception that nobody expected,
another process that works on the run, or a copy that could not be written to where all machines see it."""


@dataclass(frozen=True)
class Resumed:
    """A run is about to go on; so many of its steps were made before."""

    run: Run[Any]
    """Run that goes on."""
    steps: int
    """Steps made before."""


@dataclass(frozen=True)
class Progress:
    """So many more steps have been made."""

    run: Run[Any]
    """Run that was trained."""
    steps: int
    """Number of steps."""


@dataclass(frozen=True)
class Row:
    """A task is over."""

    run: Run[Any]
    """Run whose task it was."""
    values: Mapping[str, Any]
    """Metrics at the task's end, by name, and the task's number."""

    @property
    def task(self) -> int:
        """Number of the task, from 0."""
        return int(self.values["task"])


@dataclass(frozen=True)
class Ended:
    """A run has ended, here or before: done, stopped or diverged, as its position says."""

    run: Run[Any]
    """Run that has ended."""
    position: Position
    """Position of its last checkpoint."""

    @property
    def state(self) -> str:
        """State in which it ended."""
        return self.run.state_at(self.position)


@dataclass(frozen=True)
class Problem:
    """Something is wrong with a run."""

    run: Run[Any]
    """Run that it concerns."""
    message: str
    """What is wrong and what to do, in one line."""
    cause: Cause | None = None
    """Why it failed, if another attempt may end better."""
    is_warning: bool = False
    """Whether the run goes on all the same."""


Event = Resumed | Progress | Row | Ended | Problem
"""Something that happened to a run."""
Emit = Callable[[Event], None]
"""A function that takes events, one at a time."""


def ignore(event: Event) -> None:
    """Take an event and do nothing."""
