"""What a monitor has seen so far: looks, probes, marks; and who is told of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adalin.monitor._look import Look
from adalin.monitor._probe import ProbeResult


@dataclass(frozen=True)
class ProbeNote:
    """A probe and when it was made."""

    network: str
    step: int
    result: ProbeResult


@dataclass(frozen=True)
class Mark:
    """Something that happened, for the picture: a new task, a treatment."""

    step: int
    text: str


@dataclass(frozen=True)
class Value:
    """A number of the user's own, for the picture's last row: a loss, an accuracy, a return."""

    step: int
    name: str
    value: float


@dataclass(eq=False)
class Journal:
    """Looks, probes, marks and values in the order in which they came."""

    looks: list[Look] = field(default_factory=list)
    probes: list[ProbeNote] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    listeners: Sequence[Callable[[Look | ProbeNote], None]] = ()
    """Functions that get every look and probe."""
    began: float = field(default_factory=time.time)

    def add_look(self, look: Look) -> None:
        """Note a look and tell the listeners."""
        self.looks.append(look)
        self._tell(look)

    def add_probe(self, probe: ProbeNote) -> None:
        """Note a probe and tell the listeners."""
        self.probes.append(probe)
        self._tell(probe)

    def of(self, network: str) -> "Journal":
        """What concerns one network."""
        looks = [look for look in self.looks if look.network == network]
        return Journal(looks, [p for p in self.probes if p.network == network], self.marks, self.values)

    def _tell(self, note: Look | ProbeNote) -> None:
        for listener in self.listeners:
            listener(note)
