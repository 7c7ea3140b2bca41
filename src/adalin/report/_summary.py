"""Methods compared over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adalin.report._style import rank_of
from adalin.training import AnyRun, Result

Values = NDArray[np.float64]
SWEEP_SEEDS = (0, 1, 2)
"""Hyper-parameters are chosen on these, and no result is reported on them."""


@dataclass(frozen=True, eq=False)
class Summary:
    """One setting (a method with its hyper-parameters on a benchmark) over its seeds: one line of a figure."""

    label: str
    """The method, and those settings that tell it from others it is shown with."""
    results: Sequence[Result]

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """All that defines the runs but their seeds."""
        return {name: value for name, value in self.results[0].run.config().items() if name != "seed"}

    @property
    def seeds(self) -> list[int]:
        """In the order of the rows of `values`."""
        return [result.run.seed for result in self.results]

    @property
    def tasks(self) -> int:
        """Finished by every seed that has not diverged; all that were asked for if every seed has."""
        return min((len(one.rows) for one in self.results if one.state != "diverged"), default=self.run.tasks)

    @property
    def run(self) -> AnyRun:
        """That of the seed with the most tasks."""
        return max((result.run for result in self.results), key=lambda run: run.tasks)

    def values(self, metric: str | None = None) -> Values:
        """(seeds, tasks) of the score or another metric, NaN where a run has no number, as after it diverged."""
        metric = metric or self.run.score
        table = np.full((len(self.results), self.tasks), np.nan)
        for line, result in zip(table, self.results, strict=True):
            for task, row in enumerate(result.rows[: self.tasks]):
                if isinstance(value := row.get(metric), int | float):
                    line[task] = value
        return table

    def scores(self, metric: str | None = None) -> Values:
        """The same, but a run that diverged has an accuracy of 0 from there on: it learns nothing more."""
        metric = metric or self.run.score
        values = self.values(metric)
        if metric.endswith("accuracy") and (metric == self.run.score or self.has(metric)):
            values[self._diverged] = fill_diverged(values[self._diverged])
        return values

    def has(self, metric: str) -> bool:
        """Whether any of the runs has this number."""
        return bool(np.isfinite(self.values(metric)).any())

    def total(self, metric: str | None = None) -> Values:
        """Of each seed that got to the last task, the mean over the tasks that have such a number, as in `scores`."""
        values = self.scores(metric)
        fell_short = self._diverged & np.isnan(values[:, -1:]).all(1)
        return np.array([np.nanmean(line) for line in values[~fell_short] if np.isfinite(line).any()])

    @property
    def _diverged(self) -> NDArray[np.bool_]:
        return np.array([result.state == "diverged" for result in self.results])


def fill_diverged(values: Values) -> Values:
    """Accuracies with 0 for the tasks that a run has not reached."""
    missing_to_the_end = np.logical_and.accumulate(np.isnan(values)[:, ::-1], axis=1)[:, ::-1]
    return np.where(missing_to_the_end, 0.0, values)


def mean_and_deviation(values: Values) -> tuple[Values, Values]:
    """Over seeds, task by task, those that have a number: mean and sample standard deviation (0 for one seed)."""
    counts = np.isfinite(values).sum(0)
    filled = np.where(np.isfinite(values), values, 0.0)
    with np.errstate(invalid="ignore"):  # tasks that no seed has are NaN
        mean = filled.sum(0) / counts
    squares = np.where(np.isfinite(values), (values - mean) ** 2, 0.0).sum(0)
    deviation = np.sqrt(squares / np.maximum(counts - 1, 1))
    return mean, np.where(counts > 0, deviation, np.nan)


def summarise(results: Sequence[Result]) -> list[Summary]:
    """One summary per setting, in the order in which they appear; a method with several is named with what differs.

    Seeds that choose hyper-parameters are never pooled with those that results are reported on: a setting that has both
    gets two summaries, that of the choosing seeds second.
    """
    settings: dict[Path, list[Result]] = {}
    for result in results:
        settings.setdefault(result.run.folder.parent, []).append(result)
    labels = label_runs([members[0].run for members in settings.values()])
    summaries = []
    for folder, members in settings.items():
        choosing = [result for result in members if result.run.seed in SWEEP_SEEDS]
        reported = [result for result in members if result.run.seed not in SWEEP_SEEDS]
        summaries.append(Summary(labels[folder], reported or choosing))
        if reported and choosing:
            seeds = ", ".join(str(result.run.seed) for result in choosing)
            summaries.append(Summary(f"{labels[folder]} (seeds {seeds})", choosing))
    return summaries


def label_runs(runs: Sequence[AnyRun]) -> dict[Path, str]:
    """A name for each setting, by the folder of its runs: the method, and what differs from others with that method."""
    configs = {run.folder.parent: run.config() for run in runs}
    labels = {}
    for folder, config in configs.items():
        others = [other for other in configs.values() if other["method"] == config["method"]]
        differing = [name for name in config if name != "seed" and any(other[name] != config[name] for other in others)]
        labels[folder] = " ".join((config["method"], *(f"{name}={config[name]}" for name in differing)))
    return labels


def by_benchmark(results: Sequence[Result]) -> dict[tuple[str, str], list[Summary]]:
    """Summaries for each (benchmark, data), the methods that people look for first: those of the main figure."""
    places: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        places.setdefault((result.run.benchmark, result.source), []).append(result)
    return {
        place: sorted(summarise(members), key=lambda one: rank_of(one.run.method)) for place, members in places.items()
    }


def summarise_all(results: Sequence[Result]) -> list[Summary]:
    """The summaries of all benchmarks, one benchmark after the other."""
    return [summary for members in by_benchmark(results).values() for summary in members]
