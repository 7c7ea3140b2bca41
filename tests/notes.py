"""Events of training, as they come."""

from collections.abc import Callable
from typing import Any

from adalin.runs import Ended, Event, Problem, Progress, Resumed, Row, Run


def name_of(event: Event) -> str:
    """What has happened, in one word; of a run that has ended its state."""
    match event:
        case Problem(is_warning=is_warning):
            return "warning" if is_warning else "error"
        case Ended(state=state):
            return state
        case Resumed() | Progress() | Row():
            return type(event).__name__.lower()


class Notes:
    """Takes events; may act once, when the first row is there."""

    def __init__(self, at_first_row: Callable[[], object] = lambda: None) -> None:
        self.events: list[Event] = []
        self._at_first_row = at_first_row

    def __call__(self, event: Event) -> None:
        is_first = isinstance(event, Row) and "row" not in self.names
        self.events.append(event)
        if is_first:
            self._at_first_row()

    @property
    def names(self) -> list[str]:
        return [name_of(event) for event in self.events]

    def of(self, name: str) -> list[Any]:
        return [event for event in self.events if name_of(event) == name]

    def runs(self, name: str) -> list[Run[Any]]:
        return [event.run for event in self.of(name)]

    def messages(self, name: str) -> list[str]:
        return [event.message for event in self.of(name)]

    def steps(self, name: str) -> list[int]:
        return [event.steps for event in self.of(name)]
