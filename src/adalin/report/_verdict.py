"""What the data says about a claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["holds", "does not hold", "undecided"]


def all_of(outcomes: Iterable[Outcome]) -> Outcome:
    """One that does not hold decides; without any it is undecided."""
    every = set(outcomes)
    return "does not hold" if "does not hold" in every else "holds" if every == {"holds"} else "undecided"


@dataclass(frozen=True)
class Finding:
    """One comparison that a claim rests on."""

    statement: str
    """What should be so: "adalin keeps plasticity on random-label-mnist"."""
    outcome: Outcome
    numbers: str
    """What was measured, with intervals, and on how much; or what is missing."""


@dataclass(frozen=True)
class Verdict:
    """A claim holds if all its findings do, and does not if one of them does not."""

    claim: str
    """Its short name: "C1"."""
    text: str
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """What all findings say together."""
        return all_of(finding.outcome for finding in self.findings)
