"""The kinds of comparison that the paper's claims are made of."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from adalin.report._statistics import (
    MARGIN,
    NEAR_CHANCE,
    Interval,
    Values,
    bootstrap_mean,
    end_window,
    fall_from_best,
    hierarchical_bootstrap,
    paired_test,
    plasticity,
    relative_change,
)
from adalin.report._verdict import Finding, Outcome, all_of
from adalin.streams import get_benchmark
from adalin.studies._book import Book, MissingError

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
    def statement(self) -> str: ...

    @abstractmethod
    def measure(self, book: Book) -> tuple[Outcome, str]:
        """The outcome and its numbers; raises `MissingError`."""

    def judge(self, book: Book) -> Finding:
        try:
            return Finding(self.statement, *self.measure(book))
        except MissingError as missing:
            return Finding(self.statement, "undecided", str(missing))


@dataclass(frozen=True)
class Plasticity(Check):
    """Online accuracy does (not) fall from the first tasks to the last."""

    benchmark: str
    method: str
    kept: bool

    @property
    def statement(self) -> str:
        return f"{self.method} {'keeps' if self.kept else 'loses'} plasticity on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, [self.method])
        values, chance = evidence.values[0], get_benchmark(self.benchmark).chance
        found, fall = plasticity(values, chance=chance, diverged=evidence.diverged[0]), fall_from_best(values)
        decided = found.kept or found.lost
        outcome: Outcome = "undecided" if not decided else "holds" if found.kept == self.kept else "does not hold"
        numbers = f"change {found.change} to {found.end}"
        if found.kept and fall > MARGIN:
            numbers += f", which is {fall:.3f} below its best tasks"
        if found.kept and evidence.is_smaller and (fall > MARGIN or not self.kept):
            outcome = "undecided"  # the loss may come later
        return outcome, f"{numbers}; {evidence.note}"


@dataclass(frozen=True)
class Collapses(Check):
    """Online accuracy ends near chance, having been better."""

    benchmark: str
    method: str
    between: tuple[int, int] | None = None
    """Tasks, counted from 1, between which it must have come there for good."""

    @property
    def statement(self) -> str:
        when = "" if self.between is None else " between tasks {} and {}".format(*self.between)
        return f"{self.method} collapses{when} on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, [self.method])
        values, limit = evidence.values[0], _near_chance(self.benchmark)
        last = _last(values)
        outcome = within(last, high=limit)
        numbers = f"accuracy {last} in the last tasks, near chance below {limit:.1f}"
        if outcome == "does not hold" and evidence.is_smaller:
            outcome = "undecided"  # it may come later
        learned = np.flatnonzero(values.mean(0) >= limit)
        if outcome == "holds" and not len(learned):
            outcome, numbers = "undecided", f"{numbers}, where it was from the start"
        elif outcome == "holds":
            fallen = int(learned[-1]) + 2
            numbers = f"{numbers}, where it is from task {fallen} on"
            if self.between is not None and not self.between[0] <= fallen <= self.between[1]:
                outcome = "does not hold"
        return outcome, f"{numbers}; {evidence.note}"


@dataclass(frozen=True)
class Highest(Check):
    """A method's mean over tasks is above that of each other one, seed by seed."""

    benchmark: str
    method: str
    others: tuple[str, ...]
    metric: str = "online_accuracy"
    at_end: bool = False
    """Over the last tasks only."""

    @property
    def statement(self) -> str:
        where = f"{' at the end' if self.at_end else ''} on {self.benchmark}"
        return f"{self.method} is ahead of {', '.join(self.others)} in {_words(self.metric)}{where}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, [self.method, *self.others], self.metric)
        window = end_window(evidence.values[0].shape[1]) if self.at_end else 0
        own, *others = (values[:, -window:] for values in evidence.values)  # -0 is all of them
        leads = {name: hierarchical_bootstrap(own - values) for name, values in zip(self.others, others, strict=True)}
        nearest = min(leads, key=lambda name: leads[name].value)
        p = paired_test(own, others[self.others.index(nearest)])
        numbers = f"{self.method} {own.mean():.3f}; lead over {nearest} {leads[nearest]}, p = {p:.2g}; {evidence.note}"
        return all_of(_is_lead(lead) for lead in leads.values()), numbers


@dataclass(frozen=True)
class LowestOverall(Check):
    """A method's accuracy, averaged over benchmarks, is below that of each other one."""

    benchmarks: tuple[str, ...]
    method: str
    others: tuple[str, ...]

    @property
    def statement(self) -> str:
        return f"{self.method} scores lowest over the {len(self.benchmarks)} benchmarks"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = {name: book.read(name, [self.method, *self.others]) for name in self.benchmarks}
        seeds = sorted(set.intersection(*(set(each.seeds) for each in evidence.values())))
        if not seeds:
            raise MissingError(f"no seed in common on {', '.join(self.benchmarks)}")
        own, *others = np.mean(
            [
                [values[[each.seeds.index(seed) for seed in seeds]].mean(1) for values in each.values]
                for each in evidence.values()
            ],
            axis=0,
        )  # per method and seed
        gaps = {name: bootstrap_mean(totals - own) for name, totals in zip(self.others, others, strict=True)}
        nearest = min(gaps, key=lambda name: gaps[name].value)
        notes = "; ".join(f"{name}: {each.note}" for name, each in evidence.items())
        return all_of(
            map(_is_lead, gaps.values())
        ), f"{self.method} {own.mean():.3f}; lead of {nearest} {gaps[nearest]}; {notes}"


@dataclass(frozen=True)
class Changes(Check):
    """A metric falls or rises from the first tasks to the last, by a share of what it was at least."""

    benchmark: str
    method: str
    metric: str
    by: float
    """-0.1: falls by a tenth or more."""

    @property
    def statement(self) -> str:
        verb = "falls" if self.by < 0 else "rises"
        return f"{_words(self.metric)} of {self.method} {verb} by {abs(self.by):.0%} or more on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, [self.method], self.metric)
        values = evidence.values[0]
        first = values[:, : end_window(values.shape[1])]
        start = float(first.mean())
        if (first <= 0).any():
            raise MissingError(f"{_words(self.metric)} is {first.min():.3f} at the start: nothing to compare with")
        change = relative_change(values)
        outcome = within(change, high=self.by) if self.by < 0 else within(change, low=self.by)
        return outcome, f"relative change {change} from {start:.3f}; {evidence.note}"


@dataclass(frozen=True)
class Comparable(Check):
    """A metric's mean over tasks is within a fifth of the reference's."""

    benchmark: str
    method: str
    reference: str
    metric: str

    @property
    def statement(self) -> str:
        return f"{_words(self.metric)} of {self.method} is comparable to that of {self.reference} on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, [self.method, self.reference], self.metric)
        own, reference = evidence.values
        if not reference.mean() > 0:
            raise MissingError(f"{_words(self.metric)} of {self.reference} is 0 on {self.benchmark}")
        difference = hierarchical_bootstrap(own - reference) / float(reference.mean())
        numbers = f"{own.mean():.3f} and {reference.mean():.3f}, relative difference {difference}; {evidence.note}"
        return within(difference, -COMPARABLE, COMPARABLE), numbers


@dataclass(frozen=True)
class Closer(Check):
    """A method is above a reference, or falls less short of it than another one does."""

    benchmark: str
    method: str
    other: str
    reference: str
    metric: str

    @property
    def statement(self) -> str:
        closer = f"{_words(self.metric)} of {self.method} stays above that of {self.reference}"
        return f"{closer}, or closer to it than that of {self.other}, on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, [self.method, self.other, self.reference], self.metric)
        own, other, reference = evidence.values
        gain = hierarchical_bootstrap(np.maximum(reference - other, 0) - np.maximum(reference - own, 0))
        means = (
            f"{self.method} {own.mean():.3f}, {self.other} {other.mean():.3f}, {self.reference} {reference.mean():.3f}"
        )
        above = within(hierarchical_bootstrap(own - reference), low=0) == "holds"
        return "holds" if above else within(gain, low=0), f"{means}; closer by {gain}; {evidence.note}"


@dataclass(frozen=True)
class Alike(Check):
    """No two of the methods differ by two points of accuracy."""

    benchmark: str
    methods: tuple[str, ...]

    @property
    def statement(self) -> str:
        return f"{', '.join(self.methods)} score alike on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        evidence = book.read(self.benchmark, self.methods)
        pairs = combinations(zip(self.methods, evidence.values, strict=True), 2)
        differences = {f"{a} - {b}": hierarchical_bootstrap(x - y) for (a, x), (b, y) in pairs}
        largest = max(differences, key=lambda pair: abs(differences[pair].value))
        outcome = all_of(within(difference, -ALIKE, ALIKE) for difference in differences.values())
        return outcome, f"largest difference: {largest} = {differences[largest]}; {evidence.note}"


def within(interval: Interval, low: float = -math.inf, high: float = math.inf) -> Outcome:
    """Whether an estimate is between two numbers; undecided if its interval reaches over one of them."""
    if low < interval.low and interval.high < high:
        return "holds"
    return "does not hold" if interval.high <= low or high <= interval.low else "undecided"


def _is_lead(difference: Interval) -> Outcome:
    outcome = within(difference, low=0)
    return "does not hold" if outcome == "undecided" and difference.high < NOTICEABLE else outcome


def _last(values: Values) -> Interval:
    return hierarchical_bootstrap(values[:, -end_window(values.shape[1]) :])


def _near_chance(benchmark: str) -> float:
    return get_benchmark(benchmark).chance + NEAR_CHANCE


def _words(metric: str) -> str:
    return metric.replace("_", " ")
