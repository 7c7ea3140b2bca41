"""How far a run is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STATES = ("running", "stopped", "done", "diverged")


@dataclass(frozen=True)
class Position:
    """A place between two steps of a run; its checkpoint has all that is needed to go on from there."""

    task: int = 0
    """Number of finished tasks."""
    step: int = 0
    """Steps made in the task after them."""
    state: str = "running"
    """State of the run when it was there: running, stopped, done or diverged."""
    recorded: bool = False
    """Whether the run was imported: its rows are there, and its network is not."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Numbers that only one kind of runs has."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Position":
        """The position that `as_dict` gave; raises ValueError for anything else."""
        task, step, state = values.get("task"), values.get("step"), values.get("state", "running")
        for name, number in (("task", task), ("step", step)):
            if type(number) is not int or number < 0:
                raise ValueError(f"its position has {name} = {number!r}, not a whole number")
        if state not in STATES:
            raise ValueError(f"its position has the state {state!r}, not one of {', '.join(STATES)}")
        own = ("task", "step", "state", "recorded")
        more = {name: value for name, value in values.items() if name not in own}
        assert isinstance(task, int)
        assert isinstance(step, int)
        return cls(task, step, state, bool(values.get("recorded")), more)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        recorded = {"recorded": True} if self.recorded else {}
        return {"task": self.task, "step": self.step, "state": self.state, **recorded, **self.more}


START = Position()
"""Position of a run before its first step."""
