"""The paper's way to hyper-parameters: a grid on some seeds, the best by online accuracy, results on other seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from adalin.report import SWEEP_SEEDS, Summary, summarise
from adalin.streams import get_benchmark
from adalin.studies._paper import REPORT_SEEDS, chosen_by_paper
from adalin.training import Result, Run, define_runs
from adalin.training._api import NOT_BEGUN


def sweep_runs(
    benchmark: str,
    methods: Sequence[str],
    lrs: Sequence[float],
    batch_sizes: Sequence[int],
    *,
    data: str | Path | None = None,
    **settings: Any,
) -> list[Run]:
    """The whole grid, on the seeds that only choose."""
    for name, values in (("lr", lrs), ("batch-size", batch_sizes)):
        if not values or len(set(values)) < len(values):
            raise ValueError(f"give each {name} once, and at least one; got {', '.join(map(str, values)) or 'none'}")
    runs = []
    for lr in lrs:
        for batch_size in batch_sizes:
            chosen = {"lr": lr, "batch_size": batch_size, **settings}
            runs += define_runs(benchmark, methods, SWEEP_SEEDS, data=data, **chosen)[0]
    return runs


@dataclass(frozen=True, eq=False)
class Trial:
    """One point of the grid."""

    summary: Summary

    @property
    def score(self) -> float | None:
        """Total average online accuracy; a run that diverged learned nothing more. None while it is not finished."""
        if any(result.state == "unfinished" for result in self.summary.results):
            return None
        return float(self.summary.scores().mean())

    @property
    def diverged(self) -> int:
        """How many of its runs."""
        return sum(result.state == "diverged" for result in self.summary.results)


@dataclass(frozen=True, eq=False)
class Choice:
    """A method's grid and the best of it."""

    method: str
    trials: Sequence[Trial]
    best: Trial | None
    """None until all of the grid is there."""

    @property
    def settings(self) -> dict[str, Any]:
        """What was chosen."""
        assert self.best is not None
        return {name: self.best.summary.config[name] for name in ("lr", "batch_size")}


def choose(runs: Sequence[Run], results: Sequence[Result]) -> list[Choice]:
    """The best point of a grid for each method, by what has come of its runs; only seeds of the sweep may choose."""
    if reported := {one.seed for one in (*runs, *(result.run for result in results))} - set(SWEEP_SEEDS):
        raise ValueError(f"seeds {sorted(reported)} are for reporting, and must not choose hyper-parameters")
    found = {result.run.folder: result for result in results}
    methods: dict[str, list[Trial]] = {}
    for summary in summarise([found.get(run.folder, Result(run, [], NOT_BEGUN, {})) for run in runs]):
        methods.setdefault(summary.config["method"], []).append(Trial(summary))
    choices = []
    for method, trials in methods.items():
        scores = [trial.score for trial in trials]
        complete = [score for score in scores if score is not None]
        best = trials[scores.index(max(complete))] if len(complete) == len(trials) else None
        choices.append(Choice(method, trials, best))
    return choices


def report_runs(
    benchmark: str, choices: Sequence[Choice], *, data: str | Path | None = None, **settings: Any
) -> list[Run]:
    """What was chosen, on the seeds that had no part in it."""
    return [
        run
        for choice in choices
        for run in define_runs(benchmark, [choice.method], REPORT_SEEDS, data=data, **settings | choice.settings)[0]
    ]


def sweep_table(choices: Sequence[Choice]) -> Table:
    """Every point with its score, the chosen one, and what the paper chose."""
    table = Table(title="sweep on seeds 0, 1, 2", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("method", "lr", "batch size", "all tasks", "diverged", ""):
        table.add_column(name, justify="left" if name in ("method", "") else "right", overflow="fold")
    for choice in choices:
        papers = chosen_by_paper(get_benchmark(choice.trials[0].summary.config["benchmark"]), choice.method)
        for trial in choice.trials:
            config, score = trial.summary.config, trial.score
            notes = ["chosen"] if trial is choice.best else []
            notes += ["the paper's"] if all(config[name] == value for name, value in papers.items()) else []
            table.add_row(
                choice.method,
                f"{config['lr']:g}",
                str(config["batch_size"]),
                "not finished" if score is None else f"{score:.3f}",
                f"{trial.diverged} of {len(trial.summary.results)}" if trial.diverged else "",
                ", ".join(notes),
            )
    return table
