"""Claims about the alphas themselves: what they become, and how many they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adalin.methods import Method
from adalin.models import make_model
from adalin.report._statistics import LEAST_TASKS, Interval, Values, bootstrap_mean
from adalin.report._verdict import Outcome
from adalin.studies._book import Book, MissingError
from adalin.studies._checks import Check, within

SATURATED, UNSATURATED = 0.5, 0.1
"""Mean gate of a neuron over all tasks: flat for half of the data or more; "near-zero saturation"."""
SMALL_ALPHA = 0.5
"""Half-way to the -1 that the paper calls extreme."""
SETTLED = 0.1
"""A tenth of the range (0 to 1) that alphas start in: an alpha that moves less has settled."""


@dataclass(frozen=True)
class SaturatedAlphas(Check):
    """At the end, saturated neurons have small negative alphas (figure "alpha and saturation")."""

    benchmark: str
    method: str = "adalin"

    @property
    def statement(self) -> str:
        return f"saturated neurons of {self.method} take small negative alphas on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        median, note = _median(
            book, self.benchmark, self.method, lambda saturation: saturation >= SATURATED, lambda alpha: alpha[-1]
        )
        numbers = f"median alpha {median} where the mean saturation is at least {SATURATED}; {note}"
        return within(median, -SMALL_ALPHA, 0), numbers


@dataclass(frozen=True)
class UnsaturatedAlphas(Check):
    """After the first quarter of tasks the alphas of unsaturated neurons stay (figure "alpha and saturation")."""

    benchmark: str
    method: str = "adalin"

    @property
    def statement(self) -> str:
        return f"alphas of unsaturated neurons of {self.method} settle early and stay on {self.benchmark}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        moved, note = _median(
            book,
            self.benchmark,
            self.method,
            lambda saturation: saturation <= UNSATURATED,
            lambda alpha: np.abs(alpha[-1] - alpha[len(alpha) // 4]),
        )
        numbers = f"median move {moved} after a quarter of the tasks where the mean saturation is at most {UNSATURATED}"
        return within(moved, high=SETTLED), f"{numbers}; {note}"


@dataclass(frozen=True)
class Overhead(Check):
    """How many parameters AdaLin adds to a network; needs no runs."""

    model: str
    shape: tuple[int, ...]
    classes: int
    added: int
    parameters: int
    counting: str
    """How the paper came to its number."""

    @property
    def statement(self) -> str:
        return f"AdaLin adds {_share(self.added, self.parameters)} parameters to the {self.model}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        plain, own = self._size("baseline"), self._size("adalin")
        outcome: Outcome = "holds" if (own - plain, plain) == (self.added, self.parameters) else "does not hold"
        return outcome, f"{_share(own - plain, plain)}, one per hidden neuron or channel; {self.counting}"

    def _size(self, method: str) -> int:
        with torch.device("meta"):  # draws no random numbers
            model = make_model(self.model, self.shape, self.classes, Method.parse(method).activation)
        return sum(parameter.numel() for parameter in model.parameters())


def _median(
    book: Book,
    benchmark: str,
    method: str,
    choose: Callable[[Values], NDArray[np.bool_]],
    measure: Callable[[Values], Values],
) -> tuple[Interval, str]:
    """Over chosen neurons of all layers, then the mean over seeds: of what is measured on (tasks, neurons) alphas."""
    note = book.read(benchmark, [method]).note
    medians, neurons = [], 0
    for result in book.find_all(benchmark, [method])[0].results:
        if len(result.rows) < LEAST_TASKS:  # it diverged
            continue
        if not all(row.get("alpha") and row.get("saturation") for row in result.rows):
            raise MissingError(f"no alpha or saturation of {method} with seed {result.run.seed} on {benchmark}")
        chosen = choose(_neurons(result.rows, "saturation").mean(0))
        if chosen.any():
            medians.append(np.median(measure(_neurons(result.rows, "alpha"))[chosen]))
            neurons += chosen.sum()
    if not medians:
        raise MissingError(f"{method} has no such neurons on {benchmark}; {note}")
    return bootstrap_mean(np.array(medians)), f"{neurons} neurons of {len(medians)} seeds; {note}"


def _neurons(rows: list[dict[str, Any]], metric: str) -> Values:
    """(tasks, neurons), the layers side by side."""
    return np.array([[value for layer in row[metric] for value in layer] for row in rows], dtype=np.float64)


def _share(added: int, parameters: int) -> str:
    return f"{added} of {parameters:,} ({added / parameters:.2%})"
