"""The kinds of comparison that the paper's claims are made of."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from adalin.report import (
    MARGIN,
    NEAR_CHANCE,
    Finding,
    Interval,
    Outcome,
    Values,
    all_of,
    bootstrap_mean,
    end_window,
    fall_from_best,
    hierarchical_bootstrap,
    paired_test,
    plasticity,
    relative_change,
)
from adalin.streams import get_benchmark
from adalin.studies._evidence import Evidence, MissingError, PaperRuns, common_seeds

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
        evidence = runs.evidence(self.benchmark, [self.method])
        values = evidence.values[0]
        chance = get_benchmark(self.benchmark).chance
        found = plasticity(values, chance=chance, diverged=evidence.diverged[0])
        fall = fall_from_best(values)
        outcome: Outcome
        if not (found.kept or found.lost):
            outcome = "undecided"
        else:
            outcome = "holds" if found.kept == self.kept else "does not hold"
        numbers = f"change {found.change} to {found.end}"
        if found.kept and fall > MARGIN:
            numbers += f", which is {fall:.3f} below its best tasks"
        if found.kept and evidence.smaller and (fall > MARGIN or not self.kept):
            outcome = "undecided"  # the loss may come later
        return self.finding(outcome, numbers, evidence)


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
        numbers = f"accuracy {last} in the last tasks, near chance below {limit:.1f}"
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

    @property
    def statement(self) -> str:
        when = " at the end" if self.at_end else ""
        return f"{self.method} is ahead of {', '.join(self.others)} in {_words(self.metric)}{when} on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method, *self.others], self.metric)
        window = end_window(evidence.tasks) if self.at_end else evidence.tasks
        own, *others = (values[:, -window:] for values in evidence.values)
        leads = {name: hierarchical_bootstrap(own - values) for name, values in zip(self.others, others, strict=True)}
        nearest = min(leads, key=lambda name: leads[name].value)
        p = paired_test(own, others[self.others.index(nearest)])
        numbers = f"{self.method} {own.mean():.3f}; lead over {nearest} {leads[nearest]}, p = {p:.2g}"
        return self.finding(all_of(_is_lead(lead) for lead in leads.values()), numbers, evidence)


@dataclass(frozen=True)
class LowestOverall(Check):
    """A method's accuracy, averaged over benchmarks, is below that of each other one."""

    benchmarks: tuple[str, ...]
    """Names of the benchmarks."""
    method: str
    """The method that the statement is about."""
    others: tuple[str, ...]
    """The methods that it is compared with."""

    @property
    def statement(self) -> str:
        return f"{self.method} scores lowest over the {len(self.benchmarks)} benchmarks"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = {name: runs.evidence(name, [self.method, *self.others]) for name in self.benchmarks}
        seeds = common_seeds([found.seeds for found in evidence.values()])
        if not seeds:
            raise MissingError(f"no seed in common on {', '.join(self.benchmarks)}")
        own, *others = np.mean([_means(found, seeds) for found in evidence.values()], axis=0)
        gaps = {name: bootstrap_mean(totals - own) for name, totals in zip(self.others, others, strict=True)}
        nearest = min(gaps, key=lambda name: gaps[name].value)
        notes = "; ".join(f"{name}: {found.note}" for name, found in evidence.items())
        outcome = all_of(_is_lead(gap) for gap in gaps.values())
        numbers = f"{self.method} {own.mean():.3f}; lead of {nearest} {gaps[nearest]}; {notes}"
        smaller = tuple(f"{name}: {', '.join(found.smaller)}" for name, found in evidence.items() if found.smaller)
        return Finding(self.statement, outcome, numbers, smaller)


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

    @property
    def statement(self) -> str:
        verb = "falls" if self.by < 0 else "rises"
        return f"{_words(self.metric)} of {self.method} {verb} by {abs(self.by):.0%} or more on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        evidence = runs.evidence(self.benchmark, [self.method], self.metric)
        values = evidence.values[0]
        first = values[:, : end_window(values.shape[1])]
        start = float(first.mean())
        if (first <= 0).any():
            raise MissingError(f"{_words(self.metric)} is {first.min():.3f} at the start: nothing to compare with")
        change = relative_change(values)
        outcome = within(change, high=self.by) if self.by < 0 else within(change, low=self.by)
        return self.finding(outcome, f"relative change {change} from {start:.3f}", evidence)


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
        difference = hierarchical_bootstrap(own - reference) / float(reference.mean())
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
        gain = hierarchical_bootstrap(np.maximum(reference - other, 0) - np.maximum(reference - own, 0))
        means = (
            f"{self.method} {own.mean():.3f}, {self.other} {other.mean():.3f}, {self.reference} {reference.mean():.3f}"
        )
        is_above = within(hierarchical_bootstrap(own - reference), low=0) == "holds"
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
        differences = {f"{a} - {b}": hierarchical_bootstrap(values[a] - values[b]) for a, b in pairs}
        largest = max(differences, key=lambda pair: abs(differences[pair].value))
        outcome = all_of(within(difference, -ALIKE, ALIKE) for difference in differences.values())
        return self.finding(outcome, f"largest difference: {largest} = {differences[largest]}", evidence)


def within(interval: Interval, low: float = -math.inf, high: float = math.inf) -> Outcome:
    """Whether an estimate is between two numbers; undecided if its interval reaches over one of them."""
    if low < interval.low and interval.high < high:
        return "holds"
    return "does not hold" if interval.high <= low or high <= interval.low else "undecided"


def _means(evidence: Evidence, seeds: Sequence[int]) -> list[Values]:
    """Of each method, the means over tasks, one for each of the seeds."""
    lines = [evidence.seeds.index(seed) for seed in seeds]
    return [values[lines].mean(1) for values in evidence.values]


def _is_lead(difference: Interval) -> Outcome:
    outcome = within(difference, low=0)
    return "does not hold" if outcome == "undecided" and difference.high < NOTICEABLE else outcome


def _last(values: Values) -> Interval:
    return hierarchical_bootstrap(values[:, -end_window(values.shape[1]) :])


def _words(metric: str) -> str:
    return metric.replace("_", " ")
