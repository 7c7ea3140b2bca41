"""What the data says about a claim."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["holds", "does not hold", "undecided"]


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
        outcomes = {finding.outcome for finding in self.findings}
        return "does not hold" if "does not hold" in outcomes else "holds" if outcomes == {"holds"} else "undecided"
