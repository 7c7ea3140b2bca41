"""What a person sees while runs are trained: a live table with the time left, or plain lines without a terminal."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from adalin.report._summary import label_runs
from adalin.report._table import short_number
from adalin.training import AnyRun

COLUMNS = 8
"""How many tasks the live table shows, up to that which ended last."""


class RunProgress:
    """Takes the events of training; use as a context manager and pass `report` on."""

    def __init__(self, runs: Sequence[AnyRun], console: Console) -> None:
        self._console = console
        self._labels = label_runs(runs)
        kinds: dict[Path, set[tuple[Any, ...]]] = {}
        for run in runs:
            kinds.setdefault(run.folder.parent, set()).add(run.stack_key)
        self._apart = {setting for setting, keys in kinds.items() if len(keys) > 1}
        """Settings whose seeds are trained one by one: each gets its own lines, so that none waits for the last."""
        self._tasks: dict[str, dict[int, int]] = {}
        """Of each line's seeds, how many rows are to come in all."""
        for run in runs:
            self._tasks.setdefault(self._name(run), {})[run.seed] = run.tasks
        self._scores: dict[str, dict[int, list[float]]] = {name: {} for name in self._tasks}
        self._score = runs[0].score.replace("_", " ").removeprefix("online ") if runs else ""
        self._task_name = runs[0].task_name if runs else ""
        self._latest = 0
        """The task that ended last, of whichever run."""
        self.errors: list[str] = []
        self.made_no_step = True
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            speed_estimate_period=60,
        )
        self._total = self._bar.add_task("training", total=sum(run.total_steps for run in runs))
        self._live = Live(console=console, get_renderable=self._view, refresh_per_second=4, transient=True)

    def __enter__(self) -> "RunProgress":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def report(self, event: str, run: AnyRun, details: dict[str, Any]) -> None:
        """Takes one event, as `execute` gives them."""
        name = self._name(run)
        if event == "resumed":  # was done before
            self._drop(details["steps"])
        elif event == "steps":
            self._bar.advance(self._total, details["steps"])
            self.made_no_step = False
        elif event == "row":
            self._latest = details["task"]
            scores = self._scores[name].setdefault(details["task"], [])
            score = details[run.score]  # None if no episode ended
            scores.append(math.nan if score is None else score)
            expected = sum(details["task"] < tasks for tasks in self._tasks[name].values())
            if len(scores) == expected and not self._console.is_terminal:
                left = self._bar.tasks[0].time_remaining
                time_left = "" if left is None else f"  about {duration(left)} left"
                task = f"{run.task_name} {details['task'] + 1:>3}"
                self._console.print(f"{task}  {name:<16}  {self._score} {short_number(mean(scores))}{time_left}")
        elif event == "diverged":
            self._tasks[name][run.seed] = details["task"]
            self._drop(run.total_steps - run.steps_at(details))
            where = f"{run.task_name} {details['task'] + 1}, step {details['step']}"
            label = self._labels[run.folder.parent]
            self._console.print(f"{label} with seed {run.seed} diverged in {where}: outputs are not finite")
        elif event == "warning":
            self._console.print(f"warning: {details['message']}", soft_wrap=True)
        elif event == "error" and details["message"] not in self.errors:
            self.errors.append(details["message"])

    def _drop(self, steps: int) -> None:
        """Steps that nobody will make: counted as work, they would make the time left wrong."""
        self._bar.update(self._total, total=(self._bar.tasks[0].total or 0) - steps)

    def _name(self, run: AnyRun) -> str:
        label = self._labels[run.folder.parent]
        return f"{label}, seed {run.seed}" if run.folder.parent in self._apart else label

    def _view(self) -> Group:
        shown = range(max(0, self._latest - COLUMNS + 1), self._latest + 1)
        table = Table(f"{self._score} in {self._task_name}", *(str(task + 1) for task in shown), box=None)
        for name, tasks in self._scores.items():
            cells = [short_number(mean(tasks[task])) if task in tasks else "" for task in shown]
            table.add_row(name, *cells)
        return Group(table, self._bar)


def duration(seconds: float) -> str:
    """In the unit that people would use: "90 s", "5 min", "2.5 h"."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h"
