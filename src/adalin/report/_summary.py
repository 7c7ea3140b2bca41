"""Methods compared over seeds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adalin.methods import Method
from adalin.metrics import is_accuracy
from adalin.report._statistics import Values
from adalin.report._style import rank_of
from adalin.runs import Result, Run


@dataclass(frozen=True, eq=False)
class Summary:
    """One setting (a method with its hyper-parameters on a benchmark) over its seeds: one line of a figure."""

    label: str
    """The method, and those settings that tell it from others it is shown with."""
    results: Sequence[Result]
    """Results of its runs, one for each seed."""
    title: str = ""
    """The same label for people, as figures show it: "AdaLin (Tanh), lr 0.001"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.label)

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """All that defines the runs but their seeds."""
        return {name: value for name, value in self.results[0].run.config.items() if name != "seed"}

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of the rows of `values`."""
        return [result.run.seed for result in self.results]

    @property
    def diverged(self) -> int:
        """How many of its runs diverged."""
        return sum(result.state == "diverged" for result in self.results)

    @cached_property
    def tasks(self) -> int:
        """Finished by every seed that has not diverged; all that were asked for if every seed has."""
        finished = [len(result.rows) for result in self.results if result.state != "diverged"]
        return min(finished, default=self.run.tasks)

    @cached_property
    def run(self) -> Run[Any]:
        """The run of the seed with the most tasks."""
        return max((result.run for result in self.results), key=lambda run: run.tasks)

    def values(self, metric: str | None = None) -> Values:
        """(seeds, tasks) of the score or another metric, NaN where a run has no number, as after it diverged.

        Of a metric with one number for each layer (`weight_srank`) it is their sum.
        """
        metric = metric or self.run.description.score
        table = np.full((len(self.results), self.tasks), np.nan)
        for line, result in zip(table, self.results, strict=True):
            for task, row in enumerate(result.rows[: len(line)]):
                value = row.get(metric)
                if isinstance(value, list) and value and not isinstance(value[0], list):
                    value = sum(value)
                if isinstance(value, int | float):
                    line[task] = value
        return table

    def scores(self, metric: str | None = None) -> Values:
        """The same, but a run that diverged has an accuracy of 0 from there on: it learns nothing more."""
        metric = metric or self.run.description.score
        values = self.values(metric)
        is_measured = metric == self.run.description.score or bool(np.isfinite(values).any())
        if is_accuracy(metric) and is_measured:
            values[self._has_diverged] = fill_diverged(values[self._has_diverged])
        return values

    def has(self, metric: str) -> bool:
        """Whether any of the runs has this number."""
        return bool(np.isfinite(self.values(metric)).any())

    def total(self, metric: str | None = None) -> Values:
        """Of each seed that got to the last task, the mean over the tasks that have such a number, as in `scores`."""
        values = self.scores(metric)
        fell_short = self._has_diverged & np.isnan(values[:, -1:]).all(1)
        return np.array([np.nanmean(line) for line in values[~fell_short] if np.isfinite(line).any()])

    @cached_property
    def _has_diverged(self) -> NDArray[np.bool_]:
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


def summarise(results: Sequence[Result], *, choosing: Collection[int] = ()) -> list[Summary]:
    """One summary per setting, in the order in which they appear; a method with several is named with what differs.

    `choosing` are seeds that choose hyper-parameters. They are never pooled with those that results are reported on: a
    setting that has both gets two summaries, that of the choosing seeds second.
    """
    settings: dict[Path, list[Result]] = {}
    for result in results:
        settings.setdefault(result.run.setting_folder, []).append(result)
    labels = _labels({folder: members[0].run for folder, members in settings.items()})
    titles = _labels({folder: members[0].run for folder, members in settings.items()}, for_people=True)
    summaries = []
    for folder, members in settings.items():
        chose = [result for result in members if result.run.seed in choosing]
        reported = [result for result in members if result.run.seed not in choosing]
        summaries.append(Summary(labels[folder], reported or chose, titles[folder]))
        if reported and chose:
            seeds = ", ".join(str(result.run.seed) for result in chose)
            note = f" (seeds {seeds})"
            summaries.append(Summary(labels[folder] + note, chose, titles[folder] + note))
    return summaries


def label_runs(runs: Sequence[Run[Any]]) -> dict[Path, str]:
    """A name for each setting, by the folder of its runs: the method, and what differs from others with that method."""
    return _labels({run.setting_folder: run for run in runs})


def _labels(runs: Mapping[Path, Run[Any]], *, for_people: bool = False) -> dict[Path, str]:
    """The same, given one run of each setting by its folder; for people, the method's title and words."""
    methods: dict[str, dict[Path, Mapping[str, Any]]] = {}
    for folder, run in runs.items():
        methods.setdefault(run.method, {})[folder] = run.config
    labels = {}
    for method, configs in methods.items():
        names = next(iter(configs.values()))
        differing = [
            name for name in names if name != "seed" and len({config[name] for config in configs.values()}) > 1
        ]
        for folder, config in configs.items():
            own = {name: config[name] for name in differing if config[name] is not None}
            if for_people:
                labels[folder] = ", ".join((method_title(method), *(f"{_words(name)} {own[name]}" for name in own)))
            else:
                labels[folder] = " ".join((method, *(f"{name}={own[name]}" for name in own)))
    return labels


def method_title(method: str) -> str:
    """A method's text for people; the text itself if it is a plugin's that is not loaded."""
    try:
        return Method.parse(method).title
    except ValueError:
        return method


def _words(name: str) -> str:
    return name.replace("_", " ")


def by_benchmark(results: Sequence[Result], *, choosing: Collection[int] = ()) -> dict[tuple[str, str], list[Summary]]:
    """The summaries of each (benchmark, data), as `summarise` makes them, in the order in which methods are listed."""
    places: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        places.setdefault((result.run.benchmark, result.source), []).append(result)
    return {
        place: sorted(summarise(members, choosing=choosing), key=lambda summary: rank_of(summary.run.method))
        for place, members in places.items()
    }
