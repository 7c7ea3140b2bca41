"""What the data says about a claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["holds", "does not hold", "undecided"]
"""Answer of results to a claim."""


def all_of(outcomes: Iterable[Outcome]) -> Outcome:
    """One that does not hold decides; without any it is undecided."""
    every = set(outcomes)
    if "does not hold" in every:
        return "does not hold"
    return "holds" if every == {"holds"} else "undecided"


@dataclass(frozen=True)
class Finding:
    """One comparison that a claim rests on."""

    statement: str
    """Statement that is tested: "adalin keeps plasticity on random-label-mnist"."""
    outcome: Outcome
    """Answer of the runs to the statement."""
    numbers: str
    """Measured numbers with their intervals, and on how much they rest; or what is missing."""
    smaller: tuple[str, ...] = ()
    """Ways in which its runs are less than those that the claim was made from: "20 of 250 tasks"."""


@dataclass(frozen=True)
class Verdict:
    """A claim holds if all its findings do, and does not if one of them does not."""

    claim: str
    """Short name of the claim: "C1"."""
    text: str
    """The claim itself."""
    findings: tuple[Finding, ...]
    """The comparisons that it rests on."""
    source: str = "the claim"
    """Author of the claim, for people: "the paper"."""

    @property
    def outcome(self) -> Outcome:
        """What all findings say together."""
        return all_of(finding.outcome for finding in self.findings)

    @property
    def is_smaller(self) -> bool:
        """Whether it was decided by runs that are less than those that the claim was made from."""
        smaller = [bool(finding.smaller) for finding in self.findings if finding.outcome == self.outcome]
        if self.outcome == "holds":
            return any(smaller)  # a claim holds by all of its findings
        return self.outcome == "does not hold" and all(smaller)  # and fails by any of them

    def __str__(self) -> str:
        return f"{self.outcome} (at a smaller scale than {self.source}'s)" if self.is_smaller else self.outcome
