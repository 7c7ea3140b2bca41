"""What the data says about a claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["holds", "does not hold", "undecided"]
SMALLER = "not the paper's scale"
"""Begins the part of a finding's numbers that says in what its runs are less than the paper's."""


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

    @property
    def is_smaller(self) -> bool:
        """Whether its runs are less than the paper's."""
        return SMALLER in self.numbers


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

    @property
    def is_smaller(self) -> bool:
        """Whether it was decided by runs that are less than the paper's."""
        smaller = [finding.is_smaller for finding in self.findings if finding.outcome == self.outcome]
        # A claim holds by all of its findings, and fails by any of them.
        return {"holds": any(smaller), "does not hold": all(smaller), "undecided": False}[self.outcome]

    def __str__(self) -> str:
        return f"{self.outcome} (at a smaller scale than the paper's)" if self.is_smaller else self.outcome
