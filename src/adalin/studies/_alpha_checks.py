"""Claims about the alphas themselves: what they become, and how many they are."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adalin.methods import Method
from adalin.models import make_model
from adalin.report import LEAST_TASKS, Finding, Outcome, Values, t_interval
from adalin.studies._checks import Check, within
from adalin.studies._evidence import Evidence, MissingError, PaperRuns

SATURATED = 0.5
"""Mean gate, over all tasks, of a neuron that is flat for half of the data or more."""
UNSATURATED = 0.1
"""Mean gate of a neuron with "near-zero saturation"."""
SMALL_ALPHA = 0.5
"""Half-way to the -1 that the paper calls extreme."""
EXTREME = 1.0
"""The largest alpha to start with, and the paper's example of an extreme one."""
NEARLY_ALL = 0.9
"""Share of neurons."""
NEGLIGIBLE = 0.01
"""A hundredth of the parameters."""
SETTLED = 0.1
"""A tenth of the range (0 to 1) that alphas start in: an alpha that moves less has settled."""


@dataclass(frozen=True)
class MostSaturated(Check):
    """More than half of the neurons are saturated, by the mean over all tasks."""

    benchmark: str
    """Name of the benchmark."""
    method: str = "adalin"
    """The method that the statement is about."""

    @property
    def statement(self) -> str:
        return f"most neurons of {self.method} are saturated on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        found = _neurons_of(runs, self.benchmark, self.method)
        share = t_interval([(saturation.mean(0) >= SATURATED).mean() for _, saturation in found.seeds])
        numbers = f"share with a mean saturation of at least {SATURATED}: {share.with_seeds}"
        return self.finding(within(share, low=0.5), numbers, found.evidence)


@dataclass(frozen=True)
class SaturatedAlphas(Check):
    """At the end, saturated neurons have small negative alphas (figure "alpha and saturation")."""

    benchmark: str
    """Name of the benchmark."""
    method: str = "adalin"
    """The method that the statement is about."""

    @property
    def statement(self) -> str:
        return f"saturated neurons of {self.method} take small negative alphas on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        found = _neurons_of(runs, self.benchmark, self.method)
        chosen = found.where(lambda saturation: saturation >= SATURATED)
        median = t_interval([np.median(alpha[-1]) for alpha in chosen])
        where = f"where the mean saturation is at least {SATURATED}"
        numbers = f"median alpha {median.with_seeds} {where}; {_count(chosen)}"
        return self.finding(within(median, -SMALL_ALPHA, 0), numbers, found.evidence)


@dataclass(frozen=True)
class ExtremeAlphas(Check):
    """Unsaturated neurons have an alpha of 1 or more in size after a quarter of the tasks, and its sign at the end."""

    benchmark: str
    """Name of the benchmark."""
    method: str = "adalin"
    """The method that the statement is about."""

    @property
    def statement(self) -> str:
        alphas = f"alphas of unsaturated neurons of {self.method}"
        return f"{alphas} are extreme early and keep their sign on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        found = _neurons_of(runs, self.benchmark, self.method)
        chosen = found.where(lambda saturation: saturation <= UNSATURATED)
        settled = 0
        for alpha in chosen:
            early, late = alpha[len(alpha) // 4], alpha[-1]
            settled += int(((np.abs(early) >= EXTREME) & (np.abs(late) >= EXTREME) & (early * late > 0)).sum())
        neurons = sum(alpha.shape[1] for alpha in chosen)
        numbers = f"{settled} of {neurons} neurons of {len(chosen)} seeds"
        share = settled / neurons
        outcome: Outcome = "holds" if share >= NEARLY_ALL else "does not hold"
        return self.finding(outcome, numbers, found.evidence)


@dataclass(frozen=True)
class UnsaturatedAlphas(Check):
    """After the first quarter of tasks the alphas of unsaturated neurons stay (figure "alpha and saturation")."""

    benchmark: str
    """Name of the benchmark."""
    method: str = "adalin"
    """The method that the statement is about."""

    @property
    def statement(self) -> str:
        return f"alphas of unsaturated neurons of {self.method} settle early and stay on {self.benchmark}"

    def measure(self, runs: PaperRuns) -> Finding:
        found = _neurons_of(runs, self.benchmark, self.method)
        chosen = found.where(lambda saturation: saturation <= UNSATURATED)
        moves = t_interval([_median_move(alpha) for alpha in chosen])
        clipped = t_interval([_median_move(alpha.clip(-1, 1)) for alpha in chosen])
        where = f"after a quarter of the tasks where the mean saturation is at most {UNSATURATED}"
        shown = f"clipped to [-1, 1], as a scale of colours would, {clipped.value:.3f}"
        numbers = f"median move {moves.with_seeds} {where}; {shown}; {_count(chosen)}"
        return self.finding(within(moves, high=SETTLED), numbers, found.evidence)


@dataclass(frozen=True)
class Negligible(Check):
    """AdaLin adds less than a hundredth to a network's parameters; needs no runs."""

    model: str
    """Name of the network."""
    shape: tuple[int, ...]
    """Shape of an image."""
    classes: int
    """Number of outputs."""
    counted: str
    """Count in the paper, and the way to its number."""

    @property
    def statement(self) -> str:
        return f"AdaLin adds less than {NEGLIGIBLE:.0%} of parameters to the {self.model}"

    def measure(self, runs: PaperRuns) -> Finding:
        plain = self._size("baseline")
        added = self._size("adalin") - plain
        outcome: Outcome = "holds" if added < NEGLIGIBLE * plain else "does not hold"
        own = f"{added} of {plain:,} ({added / plain:.2%}), one per hidden neuron or channel"
        return Finding(self.statement, outcome, f"{own}; the paper counts {self.counted}")

    def _size(self, method: str) -> int:
        with torch.device("meta"):  # draws no random numbers
            model = make_model(self.model, self.shape, self.classes, Method.parse(method).activation)
        return sum(parameter.numel() for parameter in model.parameters())


@dataclass(frozen=True, eq=False)
class _AlphasOfSeeds:
    """Every hidden neuron of a method's runs, those that did not diverge at once."""

    seeds: list[tuple[Values, Values]]
    """Alphas and saturations of each seed, (tasks, neurons), the layers side by side."""
    missing: str
    """Message where no neuron is as wanted."""
    evidence: Evidence
    """The runs that they are of."""

    def where(self, choose: Callable[[Values], NDArray[np.bool_]]) -> list[Values]:
        """(tasks, neurons) of alphas, of the neurons whose mean saturation is as wanted, for seeds that have any."""
        chosen = [alpha[:, choose(saturation.mean(0))] for alpha, saturation in self.seeds]
        chosen = [alpha for alpha in chosen if alpha.shape[1]]
        if not chosen:
            raise MissingError(self.missing)
        return chosen


def _neurons_of(runs: PaperRuns, benchmark: str, method: str) -> _AlphasOfSeeds:
    evidence = runs.evidence(benchmark, [method])
    seeds = []
    for result in runs.find_all(benchmark, [method])[0].results:
        if len(result.rows) < LEAST_TASKS:  # it diverged
            continue
        if not all(row.get("alpha") and row.get("saturation") for row in result.rows):
            raise MissingError(f"no alpha or saturation of {method} with seed {result.run.seed} on {benchmark}")
        seeds.append((_side_by_side(result.rows, "alpha"), _side_by_side(result.rows, "saturation")))
    missing = f"{method} has no such neurons on {benchmark}; {evidence.note}"
    if not seeds:
        raise MissingError(missing)
    return _AlphasOfSeeds(seeds, missing, evidence)


def _side_by_side(rows: list[dict[str, Any]], metric: str) -> Values:
    return np.array([list(chain(*row[metric])) for row in rows], dtype=np.float64)


def _median_move(alpha: Values) -> float:
    return float(np.median(np.abs(alpha[-1] - alpha[len(alpha) // 4])))


def _count(chosen: list[Values]) -> str:
    return f"{sum(alpha.shape[1] for alpha in chosen)} neurons of {len(chosen)} seeds"
