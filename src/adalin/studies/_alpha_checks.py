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
from adalin.report import LEAST_TASKS, Finding, Interval, Outcome, Values, bootstrap_mean
from adalin.studies._checks import Check, within
from adalin.studies._evidence import Evidence, MissingError, PaperRuns

SATURATED = 0.5
"""Mean gate, over all tasks, of a neuron that is flat for half of the data or more."""
UNSATURATED = 0.1
"""Mean gate of a neuron with "near-zero saturation"."""
SMALL_ALPHA = 0.5
"""Half-way to the -1 that the paper calls extreme."""
SETTLED = 0.1
"""A tenth of the range (0 to 1) that alphas start in: an alpha that moves less has settled."""


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
        found = _median(
            runs, self.benchmark, self.method, lambda saturation: saturation >= SATURATED, lambda alpha: alpha[-1]
        )
        numbers = f"median alpha {found.median} where the mean saturation is at least {SATURATED}; {found.neurons}"
        return self.finding(within(found.median, -SMALL_ALPHA, 0), numbers, found.evidence)


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
        found = _median(
            runs,
            self.benchmark,
            self.method,
            lambda saturation: saturation <= UNSATURATED,
            lambda alpha: np.abs(alpha[-1] - alpha[len(alpha) // 4]),
        )
        where = f"after a quarter of the tasks where the mean saturation is at most {UNSATURATED}"
        numbers = f"median move {found.median} {where}; {found.neurons}"
        return self.finding(within(found.median, high=SETTLED), numbers, found.evidence)


@dataclass(frozen=True)
class Overhead(Check):
    """How many parameters AdaLin adds to a network; needs no runs."""

    model: str
    """Name of the network."""
    shape: tuple[int, ...]
    """Shape of an image."""
    classes: int
    """Number of outputs."""
    added: int
    """Number of alphas."""
    parameters: int
    """Number of parameters without them."""
    counting: str
    """Way in which the paper came to its number."""

    @property
    def statement(self) -> str:
        return f"AdaLin adds {_share(self.added, self.parameters)} parameters to the {self.model}"

    def measure(self, runs: PaperRuns) -> Finding:
        plain = self._size("baseline")
        added = self._size("adalin") - plain
        outcome: Outcome = "holds" if (added, plain) == (self.added, self.parameters) else "does not hold"
        numbers = f"{_share(added, plain)}, one per hidden neuron or channel; {self.counting}"
        return Finding(self.statement, outcome, numbers)

    def _size(self, method: str) -> int:
        with torch.device("meta"):  # draws no random numbers
            model = make_model(self.model, self.shape, self.classes, Method.parse(method).activation)
        return sum(parameter.numel() for parameter in model.parameters())


@dataclass(frozen=True)
class _Median:
    median: Interval
    """Mean over seeds of the median over neurons."""
    neurons: str
    """Number of neurons and seeds, for people."""
    evidence: Evidence
    """The runs that they are of."""


def _median(
    runs: PaperRuns,
    benchmark: str,
    method: str,
    choose: Callable[[Values], NDArray[np.bool_]],
    measure: Callable[[Values], Values],
) -> _Median:
    """Over chosen neurons of all layers, then the mean over seeds: of what is measured on (tasks, neurons) alphas."""
    evidence = runs.evidence(benchmark, [method])
    medians = []
    neurons = 0
    for result in runs.find_all(benchmark, [method])[0].results:
        if len(result.rows) < LEAST_TASKS:  # it diverged
            continue
        if not all(row.get("alpha") and row.get("saturation") for row in result.rows):
            raise MissingError(f"no alpha or saturation of {method} with seed {result.run.seed} on {benchmark}")
        chosen = choose(_neurons(result.rows, "saturation").mean(0))
        if chosen.any():
            medians.append(np.median(measure(_neurons(result.rows, "alpha"))[chosen]))
            neurons += chosen.sum()
    if not medians:
        raise MissingError(f"{method} has no such neurons on {benchmark}; {evidence.note}")
    return _Median(bootstrap_mean(np.array(medians)), f"{neurons} neurons of {len(medians)} seeds", evidence)


def _neurons(rows: list[dict[str, Any]], metric: str) -> Values:
    """(tasks, neurons), the layers side by side."""
    return np.array([list(chain(*row[metric])) for row in rows], dtype=np.float64)


def _share(added: int, parameters: int) -> str:
    return f"{added} of {parameters:,} ({added / parameters:.2%})"
