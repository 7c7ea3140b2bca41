"""The kinds of comparison that the paper's claims are made of."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from adalin.report import (
    MARGIN,
    NEAR_CHANCE,
    Finding,
    Interval,
    Outcome,
    Plasticity,
    Values,
    all_of,
    end_window,
    mean_interval,
    plasticity,
    relative_change,
    t_interval,
)
from adalin.streams import get_benchmark
from adalin.studies._evidence import Evidence, MissingError, PaperRuns

NOTICEABLE = 0.005
"""A lead that is certainly less than half a point, and perhaps none, is none."""
ALIKE = 0.02
"""Accuracies that differ by less than two points "hardly" differ."""
COMPARABLE = 0.2
"""Effective ranks within a fifth of each other are "comparable"."""


@dataclass(frozen=True)
class Check(ABC):
    """Subclasses say what should be so and measure whether it is."""

    @property
    @abstractmethod
    def statement(self) -> str:
        """What should be so."""

    @abstractmethod
    def measure(self, runs: PaperRuns) -> Finding:
        """Compare; raises `MissingError`."""

    def judge(self, runs: PaperRuns) -> Finding:
        """What the runs say, or that they say nothing."""
        try:
            return self.measure(runs)
        except MissingError as missing:
            return Finding(self.statement, "undecided", str(missing))

    def finding(self, outcome: Outcome, numbers: str, evidence: Evidence) -> Finding:
        """An outcome with its numbers, and on how much they rest."""
        return Finding(self.statement, outcome, f"{numbers}; {evidence.note}", evidence.smaller)


@dataclass(frozen=True)
class PlasticityCheck(Check):
    """Online accuracy does (not) fall from the first tasks to the last."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    kept: bool
    """Whether plasticity should be kept, or else lost."""

    @property
    def statement(self) -> str:
        verb = "keeps" if self.kept else "loses"
        return f"{self.method} {verb} plasticity on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        found, evidence = fate(runs, self.benchmark, self.method)
        outcome: Outcome = "undecided"
        if found.kept or found.lost:
            outcome = "holds" if found.kept == self.kept else "does not hold"
        fell = found.from_best.value < -MARGIN
        if found.kept and evidence.smaller and (fell or not self.kept):
            outcome = "undecided"  # the loss may come later
        if found.lost and evidence.diverged[0] == len(evidence.seeds):
            evidence = replace(evidence, smaller=())  # more tasks would not bring them back
        return self.finding(outcome, _plasticity_numbers(found, outcome), evidence)


@dataclass(frozen=True)
class LosesSomewhere(Check):
    """A method loses plasticity on one benchmark at least."""

    benchmarks: tuple[str, ...]
    """Names of the benchmarks."""
    method: str
    """The method that the statement is about."""

    @property
    def statement(self) -> str:
        return f"{self.method} loses plasticity on at least one of {len(self.benchmarks)} benchmarks"

    def measure(self, runs: PaperRuns) -> Finding:
        fates = {name: fate(runs, name, self.method) for name in self.benchmarks}
        lost = [name for name, (found, _) in fates.items() if found.lost]
        open_ones = [name for name, (found, _) in fates.items() if not (found.lost or found.kept)]
        worst = min(fates, key=lambda name: fates[name][0].change.value)
        evidence = fates[lost[0] if lost else worst][1]
        if lost:
            return self.finding("holds", f"lost on {', '.join(lost)}", evidence)
        smallest = f"smallest change {fates[worst][0].change} on {worst}"
        if open_ones:
            return self.finding("undecided", f"not clear on {', '.join(open_ones)}; {smallest}", evidence)
        return self.finding("does not hold", f"kept on all; {smallest}", evidence)


@dataclass(frozen=True)
class Collapses(Check):
    """Online accuracy ends near chance, having been better."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    between: tuple[int, int] | None = None
    """First and last task, counted from 1, at which it may have come there for good."""

    @property
    def statement(self) -> str:
        when = "" if self.between is None else " between tasks {} and {}".format(*self.between)
        return f"{self.method} collapses{when} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method])
        values = evidence.values[0]
        limit = get_benchmark(self.benchmark).chance + NEAR_CHANCE
        last = _last(values)
        outcome = within(last, high=limit)
        numbers = f"accuracy {last.with_seeds} in the last tasks, near chance below {limit:.1f}"
        if outcome == "does not hold" and evidence.smaller:
            outcome = "undecided"  # it may come later
        learned = np.flatnonzero(values.mean(0) >= limit)
        if outcome == "holds" and not len(learned):
            outcome = "undecided"
            numbers = f"{numbers}, where it was from the start"
        elif outcome == "holds":
            fallen = int(learned[-1]) + 2
            numbers = f"{numbers}, where it is from task {fallen} on"
            if self.between is not None and not self.between[0] <= fallen <= self.between[1]:
                outcome = "does not hold"
        return self.finding(outcome, numbers, evidence)


@dataclass(frozen=True)
class Highest(Check):
    """A method's mean over tasks is above that of each other one, seed by seed."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    others: tuple[str, ...]
    """The methods that it is compared with."""
    metric: str = "online_accuracy"
    """Name of the metric."""
    at_end: bool = False
    """Whether the mean is over the last tasks only."""
    by: float = 0.0
    """Least lead."""

    @property
    def statement(self) -> str:
        when = " at the end" if self.at_end else ""
        by = f" by {self.by:g}" if self.by else ""
        others = ", ".join(self.others)
        return f"{self.method} is ahead of {others}{by} in {_words(self.metric)}{when} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, *self.others], self.metric)
        window = end_window(evidence.tasks) if self.at_end else evidence.tasks
        own, *others = (values[:, -window:] for values in evidence.values)
        leads = dict(zip(self.others, _leads(own, others), strict=True))
        nearest = min(leads, key=lambda name: leads[name].value)
        outcome = all_of(_is_lead(lead, self.by) for lead in leads.values())
        numbers = f"{self.method} {own.mean():.3f}; lead over {nearest} {leads[nearest].with_seeds}"
        return self.finding(outcome, numbers + seeds_note(leads[nearest], outcome, self.by), evidence)


@dataclass(frozen=True)
class NotBehind(Check):
    """No other method's mean over tasks is certainly above that of a method."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    others: tuple[str, ...]
    """The methods that it is compared with."""

    @property
    def statement(self) -> str:
        return f"{self.method} matches or outperforms {', '.join(self.others)} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, *self.others])
        own, *others = evidence.values
        leads = dict(zip(self.others, _leads(own, others), strict=True))
        worst = min(leads, key=lambda name: leads[name].value)
        # Behind by less than half a point counts as level.
        outcome = all_of(within(lead, low=-NOTICEABLE) for lead in leads.values())
        ahead = [name for name, lead in leads.items() if lead.high < 0]
        numbers = f"{self.method} {own.mean():.3f}; lead over {worst} {leads[worst].with_seeds}"
        if ahead:
            numbers += f"; certainly ahead of it: {', '.join(ahead)}"
        return self.finding(outcome, numbers + seeds_note(leads[worst], outcome, -NOTICEABLE), evidence)


@dataclass(frozen=True)
class AmongBest(Check):
    """Fewer than so many other methods are certainly ahead of a method."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    others: tuple[str, ...]
    """The methods that it is compared with."""
    metric: str
    """Name of the metric."""
    place: int = 3
    """Worst place that still counts."""

    @property
    def statement(self) -> str:
        methods = len(self.others) + 1
        return f"{self.method} is among the best {self.place} of {methods} in {_words(self.metric)} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, *self.others], self.metric)
        own, *others = evidence.values
        leads = dict(zip(self.others, _leads(own, others), strict=True))
        certain = [name for name, lead in leads.items() if lead.high < 0]
        perhaps = [name for name, lead in leads.items() if lead.low < 0 <= lead.high]
        outcome: Outcome = "undecided"
        if len(certain) + len(perhaps) < self.place:
            outcome = "holds"
        elif len(certain) >= self.place:
            outcome = "does not hold"
        means = {name: values.mean() for name, values in zip(self.others, others, strict=True)}
        better = [f"{name} {mean:.3f}" for name, mean in means.items() if mean > own.mean()]
        numbers = f"{self.method} {own.mean():.3f}; above it: {', '.join(better) or 'none'}"
        return self.finding(outcome, numbers, evidence)


@dataclass(frozen=True)
class LowestOfLearners(Check):
    """A method scores below each other one that has not lost its plasticity and does not end near chance.

    A network that has stopped to learn can score lower than anything, and says nothing about capacity.
    """

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    others: tuple[str, ...]
    """The methods that it is compared with, if they still learn."""

    @property
    def statement(self) -> str:
        return f"{self.method} scores below all that keep learning without resets on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        limit = get_benchmark(self.benchmark).chance + NEAR_CHANCE
        fates = {name: fate(runs, self.benchmark, name)[0] for name in self.others}
        learners = [name for name, found in fates.items() if not found.lost and found.end.low > limit]
        if not learners:
            raise MissingError(f"none of {', '.join(self.others)} learns to the end on {self.benchmark}")
        evidence = runs.evidence(self.benchmark, [self.method, *learners])
        own, *others = evidence.values
        leads = dict(zip(learners, _leads(own, others), strict=True))
        nearest = max(leads, key=lambda name: leads[name].value)
        below = [-lead.high for lead in leads.values()]
        outcome: Outcome = "holds" if min(below) > 0 else "undecided"
        if any(lead.low > 0 for lead in leads.values()):
            outcome = "does not hold"
        numbers = f"{self.method} {own.mean():.3f}; lead over {nearest} {leads[nearest].with_seeds}"
        return self.finding(outcome, f"{numbers}; of {', '.join(learners)}", evidence)


@dataclass(frozen=True)
class Changes(Check):
    """A metric falls or rises from the first tasks to the last, by a share of what it was at least."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    metric: str
    """Name of the metric."""
    by: float
    """Least relative change: -0.1 for a metric that falls by a tenth or more."""
    first: int | None = None
    """Number of first tasks that it is compared with, where not five: with one, what happens at once counts too."""

    @property
    def statement(self) -> str:
        verb = "falls" if self.by < 0 else "rises"
        return f"{_words(self.metric)} of {self.method} {verb} by {abs(self.by):.0%} or more on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method], self.metric)
        values = evidence.values[0]
        change = _positive_change(values, self.metric, self.first)
        outcome = within(change, high=self.by) if self.by < 0 else within(change, low=self.by)
        note = seeds_note(change, outcome, self.by)
        return self.finding(outcome, f"relative change {change.with_seeds}{note}", evidence)


@dataclass(frozen=True)
class Steady(Check):
    """A metric does not fall steeply from the first tasks to the last."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    metric: str
    """Name of the metric."""
    by: float
    """Relative change that would be steep, below 0."""

    @property
    def statement(self) -> str:
        return f"{_words(self.metric)} of {self.method} does not fall by {-self.by:.0%} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method], self.metric)
        change = _positive_change(evidence.values[0], self.metric)
        return self.finding(within(change, low=self.by), f"relative change {change.with_seeds}", evidence)


@dataclass(frozen=True)
class FallsMoreThan(Check):
    """A metric falls by a share of what it was, beyond what it does in a control that sees the same tasks."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    reference: str
    """The control."""
    metric: str
    """Name of the metric."""
    by: float
    """Relative change beyond the control's, below 0."""

    @property
    def statement(self) -> str:
        fall = f"{_words(self.metric)} of {self.method} falls by {-self.by:.0%} more than that of {self.reference}"
        return f"{fall} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, self.reference], self.metric)
        own, reference = (_positive_change(values, self.metric) for values in evidence.values)
        beyond = t_interval(np.subtract(own.seeds, reference.seeds))
        outcome = within(beyond, high=self.by)
        numbers = f"relative changes {own} and {reference}, beyond it {beyond.with_seeds}"
        return self.finding(outcome, numbers + seeds_note(beyond, outcome, self.by), evidence)


@dataclass(frozen=True)
class Comparable(Check):
    """A metric's mean over tasks is within a fifth of the reference's."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    reference: str
    """The method that it is compared with."""
    metric: str
    """Name of the metric."""

    @property
    def statement(self) -> str:
        return f"{_words(self.metric)} of {self.method} is comparable to that of {self.reference} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, self.reference], self.metric)
        own, reference = evidence.values
        if not reference.mean() > 0:
            raise MissingError(f"{_words(self.metric)} of {self.reference} is 0 on {self.benchmark}")
        difference = mean_interval(own - reference) / float(reference.mean())
        numbers = f"{own.mean():.3f} and {reference.mean():.3f}, relative difference {difference}"
        return self.finding(within(difference, -COMPARABLE, COMPARABLE), numbers, evidence)


@dataclass(frozen=True)
class Closer(Check):
    """A method is above a reference, or falls less short of it than another one does."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """The method that the statement is about."""
    other: str
    """The method that should be further away."""
    reference: str
    """The method that it is compared with."""
    metric: str
    """Name of the metric."""

    @property
    def statement(self) -> str:
        closer = f"{_words(self.metric)} of {self.method} stays above that of {self.reference}"
        return f"{closer}, or closer to it than that of {self.other}, on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, self.other, self.reference], self.metric)
        own, other, reference = evidence.values
        gain = mean_interval(np.maximum(reference - other, 0) - np.maximum(reference - own, 0))
        means = (
            f"{self.method} {own.mean():.3f}, {self.other} {other.mean():.3f}, {self.reference} {reference.mean():.3f}"
        )
        is_above = within(mean_interval(own - reference), low=0) == "holds"
        outcome: Outcome = "holds" if is_above else within(gain, low=0)
        return self.finding(outcome, f"{means}; closer by {gain}", evidence)


@dataclass(frozen=True)
class Alike(Check):
    """No two of the methods differ by two points of accuracy."""

    benchmark: str
    """Name of the benchmark."""
    methods: tuple[str, ...]
    """The methods that are compared."""

    @property
    def statement(self) -> str:
        return f"{', '.join(self.methods)} score alike on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, self.methods)
        values = dict(zip(self.methods, evidence.values, strict=True))
        pairs = combinations(self.methods, 2)
        differences = {f"{a} - {b}": mean_interval(values[a] - values[b]) for a, b in pairs}
        largest = max(differences, key=lambda pair: max(-differences[pair].low, differences[pair].high))
        outcome = all_of(within(difference, -ALIKE, ALIKE) for difference in differences.values())
        numbers = f"largest difference: {largest} = {differences[largest].with_seeds}"
        nearest = math.copysign(ALIKE, differences[largest].value)
        return self.finding(outcome, numbers + seeds_note(differences[largest], outcome, nearest), evidence)


def within(interval: Interval, low: float = -math.inf, high: float = math.inf) -> Outcome:
    """Whether an estimate is between two numbers; undecided if its interval reaches over one of them."""
    if low < interval.low and interval.high < high:
        return "holds"
    return "does not hold" if interval.high <= low or high <= interval.low else "undecided"


def fate(runs: PaperRuns, benchmark: str, method: str) -> tuple[Plasticity, Evidence]:
    """What became of a method's plasticity, and by which runs."""
    evidence = runs.evidence(benchmark, [method])
    chance = get_benchmark(benchmark).chance
    return plasticity(evidence.values[0], chance=chance, diverged=evidence.diverged[0]), evidence


def _plasticity_numbers(found: Plasticity, outcome: Outcome) -> str:
    parts = []
    for name, change in found.comparisons.items():
        side = "lost" if change.high < -MARGIN else "kept" if change.low > -MARGIN else "open"
        parts.append(f"against the {name} tasks {change.with_seeds} ({side})")
    text = f"{'; '.join(parts)}; ends at {found.end}"
    nearest = min(found.comparisons.values(), key=lambda change: change.seeds_to_clear(-MARGIN) or math.inf)
    is_open = [change for change in found.comparisons.values() if change.low <= -MARGIN <= change.high]
    return text + (seeds_note(nearest, outcome, -MARGIN) if is_open else "")


def seeds_note(interval: Interval, outcome: Outcome, threshold: float) -> str:
    """How many seeds would decide what these leave open, if others scatter as they do."""
    if outcome != "undecided" or not interval.low <= threshold <= interval.high:
        return ""
    needed = interval.seeds_to_clear(threshold)
    if needed is None:
        return "; no number of seeds that anybody runs would decide"
    return f"; about {needed} seeds would decide"


def _leads(own: Values, others: Sequence[Values]) -> list[Interval]:
    return [mean_interval(own - values) for values in others]


def _is_lead(difference: Interval, by: float = 0.0) -> Outcome:
    outcome = within(difference, low=by)
    return "does not hold" if outcome == "undecided" and difference.high < by + NOTICEABLE else outcome


def _positive_change(values: Values, metric: str, first: int | None = None) -> Interval:
    start = values[:, : first or end_window(values.shape[1])]
    if (start <= 0).any():
        raise MissingError(f"{_words(metric)} is {start.min():.3f} at the start: nothing to compare with")
    return relative_change(values, first=first)


def _last(values: Values) -> Interval:
    return mean_interval(values[:, -end_window(values.shape[1]) :])


def _words(metric: str) -> str:
    return metric.replace("_", " ")
