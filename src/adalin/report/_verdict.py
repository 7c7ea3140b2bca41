"""What the data says about a claim."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from adalin._text import count

Outcome = Literal["holds", "does not hold", "undecided"]
"""Answer of results to one comparison."""
Judgement = Literal["reproduced", "in part", "not reproduced", "not tested at scale", "undecided"]
"""Answer of results to a claim, which is a set of comparisons."""


def all_of(outcomes: Iterable[Outcome]) -> Outcome:
    """One that does not hold decides; without any it is undecided."""
    every = set(outcomes)
    if "does not hold" in every:
        return "does not hold"
    return "holds" if every == {"holds"} else "undecided"


@dataclass(frozen=True)
class Finding:
    """One comparison that a claim rests on: one benchmark, method or environment."""

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
    """A claim and the findings that it rests on, judged by the fraction that holds."""

    claim: str
    """Short name of the claim: "C8a"."""
    text: str
    """The claim itself."""
    findings: tuple[Finding, ...]
    """The comparisons that it rests on."""
    source: str = "the claim"
    """Author of the claim, for people: "the paper"."""
    quote: str = ""
    """The author's own words."""

    @property
    def holding(self) -> int:
        """Number of findings that hold."""
        return self._count("holds")

    @property
    def outcome(self) -> Judgement:
        """What the findings say together; those from smaller runs alone decide nothing."""
        decided = [finding for finding in self.findings if finding.outcome != "undecided"]
        if not any(not finding.smaller for finding in decided):
            is_smaller = any(finding.smaller for finding in self.findings)
            return "not tested at scale" if is_smaller else "undecided"
        if self.holding == len(self.findings):
            return "reproduced"
        if self.holding:
            return "in part"
        return "not reproduced" if self._count("does not hold") else "undecided"

    @property
    def notes(self) -> list[str]:
        """What the fraction does not tell: findings without an answer, and those from smaller runs."""
        notes = []
        if undecided := self._count("undecided"):
            notes.append(f"{undecided} undecided")
        held = [finding for finding in self.findings if finding.outcome != "undecided" and finding.smaller]
        if held:
            notes.append(f"{len(held)} at a smaller scale than {self.source}'s")
        return notes

    @property
    def fraction(self) -> str:
        """How many of the findings hold: "3/5"."""
        return f"{self.holding}/{len(self.findings)}"

    def __str__(self) -> str:
        if self.outcome == "not tested at scale":
            smaller = sum(bool(finding.smaller) for finding in self.findings)
            return f"{self.outcome} ({smaller} of {count(len(self.findings), 'comparison')} at a smaller one)"
        if self.outcome == "undecided":
            return self.outcome
        notes = f" ({', '.join(self.notes)})" if self.notes else ""
        return f"{self.outcome} {self.fraction}{notes}"

    def _count(self, outcome: Outcome) -> int:
        return sum(finding.outcome == outcome for finding in self.findings)
