"""The paper's way to hyper-parameters: a grid on some seeds, the best by online accuracy, results on other seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from adalin.executors import define
from adalin.methods import Method
from adalin.optim import SGD
from adalin.report import Summary, summarise
from adalin.runs import START, Result, Run
from adalin.settings import SupervisedSettings
from adalin.streams import get_benchmark
from adalin.studies._paper import REPORT_SEEDS, SWEEP_SEEDS, chosen_by_paper

StreamRun = Run[SupervisedSettings]
"""A run on a stream."""


def sweep_runs(
    benchmark: str,
    methods: Sequence[str],
    lrs: Sequence[float],
    batch_sizes: Sequence[int],
    *,
    data: str | Path | None = None,
    **settings: Any,
) -> list[StreamRun]:
    """The whole grid, on the seeds that only choose."""
    for name, values in (("lr", lrs), ("batch-size", batch_sizes)):
        if not values or len(set(values)) < len(values):
            raise ValueError(f"give each {name} once, and at least one; got {', '.join(map(str, values)) or 'none'}")
    runs = []
    for lr in lrs:
        for batch_size in batch_sizes:
            chosen = {"lr": lr, "batch_size": batch_size, **settings}
            runs += define(benchmark, methods, SWEEP_SEEDS, data=data, **chosen).runs
    return runs


@dataclass(frozen=True, eq=False)
class GridPoint:
    """One method with one learning rate and batch size."""

    summary: Summary
    """Its runs, on the seeds that only choose."""

    @property
    def score(self) -> float | None:
        """Total average online accuracy; a run that diverged learned nothing more. None while it is not finished."""
        if any(result.state == "unfinished" for result in self.summary.results):
            return None
        return float(self.summary.scores().mean())


@dataclass(frozen=True, eq=False)
class Choice:
    """A method's grid and the best of it."""

    method: str
    """Text of the method."""
    points: Sequence[GridPoint]
    """All of its grid."""
    best: GridPoint | None
    """The point with the highest score; None until all of the grid is there."""

    @property
    def settings(self) -> dict[str, Any]:
        """The chosen learning rate and batch size."""
        assert self.best is not None
        return {name: self.best.summary.config[name] for name in ("lr", "batch_size")}


def choose(runs: Sequence[StreamRun], results: Sequence[Result]) -> list[Choice]:
    """The best point of a grid for each method, by what has come of its runs; only seeds of the sweep may choose."""
    seeds = {run.seed for run in (*runs, *(result.run for result in results))}
    for_reporting = sorted(seeds - set(SWEEP_SEEDS))
    if for_reporting:
        raise ValueError(f"seeds {for_reporting} are for reporting, and must not choose hyper-parameters")
    found = {result.run.folder: result for result in results}
    methods: dict[str, list[GridPoint]] = {}
    for summary in summarise([found.get(run.folder, Result(run, [], START, {})) for run in runs]):
        methods.setdefault(summary.config["method"], []).append(GridPoint(summary))
    choices = []
    for method, points in methods.items():
        scores = [point.score for point in points]
        complete = [score for score in scores if score is not None]
        best = points[scores.index(max(complete))] if len(complete) == len(points) else None
        choices.append(Choice(method, points, best))
    return choices


def report_runs(
    benchmark: str, choices: Sequence[Choice], *, data: str | Path | None = None, **settings: Any
) -> list[StreamRun]:
    """What was chosen, on the seeds that had no part in it."""
    runs = []
    for choice in choices:
        runs += define(benchmark, [choice.method], REPORT_SEEDS, data=data, **settings | choice.settings).runs
    return runs


def sweep_table(choices: Sequence[Choice]) -> Table:
    """Every point with its score, the chosen one, and what the paper chose."""
    table = Table(title="sweep on seeds 0, 1, 2", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("method", "lr", "batch size", "all tasks", "diverged", ""):
        table.add_column(name, justify="left" if name in ("method", "") else "right", overflow="fold")
    for choice in choices:
        benchmark = get_benchmark(choice.points[0].summary.config["benchmark"])
        paper_values = chosen_by_paper(benchmark, choice.method)
        is_plain = Method.parse(choice.method).optimizer == SGD()  # the paper has no other
        for point in choice.points:
            config = point.summary.config
            score = point.score
            diverged = point.summary.diverged
            notes = []
            if point is choice.best:
                notes.append("chosen")
            if is_plain and all(config[name] == value for name, value in paper_values.items()):
                notes.append("the paper's")
            table.add_row(
                choice.method,
                f"{config['lr']:g}",
                str(config["batch_size"]),
                "not finished" if score is None else f"{score:.3f}",
                f"{diverged} of {len(point.summary.results)}" if diverged else "",
                ", ".join(notes),
            )
    return table
