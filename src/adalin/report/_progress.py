"""What a person sees while runs are trained: a live table with the time left, or plain lines without a terminal."""

import math
from collections.abc import Sequence
from statistics import mean
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from adalin import runs as events
from adalin._text import duration, printable
from adalin.report._summary import label_runs
from adalin.report._table import short_number
from adalin.runs import Event, Run

COLUMNS = 8
"""How many tasks the live table shows, up to that which ended last."""


class RunProgress:
    """Takes the events of training; use as a context manager and pass `note` on."""

    def __init__(self, runs: Sequence[Run[Any]], console: Console) -> None:
        self._console = console
        self._labels = label_runs(runs)
        self._scores: dict[str, dict[int, list[float]]] = {label: {} for label in self._labels.values()}
        """Scores of all seeds in each task, by the label of their setting."""
        about = runs[0].description if runs else None
        self._score = about.score.replace("_", " ").removeprefix("online ") if about else ""
        self._task_name = about.task_name if about else ""
        self._latest = 0
        """Task that ended last, of whichever run."""
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

    def note(self, event: Event) -> None:
        """Take one event."""
        match event:
            case events.Resumed():
                self._drop(event.steps)  # made before
            case events.Progress():
                self._bar.advance(self._total, event.steps)
                self.made_no_step = False
            case events.Row():
                self._note_row(event)
            case events.Ended() if event.state == "diverged":
                self._note_divergence(event)
            case events.Problem() if event.is_warning:
                self._console.print(f"warning: {printable(event.message)}", soft_wrap=True)
            case events.Problem() if event.message not in self.errors:
                self.errors.append(event.message)

    def _note_row(self, event: events.Row) -> None:
        label, self._latest = self._labels[event.run.setting_folder], event.task
        score = event.values[event.run.description.score]
        number = math.nan if score is None else score  # None if no episode ended
        self._scores[label].setdefault(event.task, []).append(number)
        if not self._console.is_terminal:
            left = self._bar.tasks[0].time_remaining
            time_left = "" if left is None else f"  about {duration(left)} left"
            task, name = f"{self._task_name} {event.task + 1:>3}", f"{label}, seed {event.run.seed}"
            self._console.print(f"{task}  {name:<16}  {self._score} {short_number(number)}{time_left}")

    def _note_divergence(self, event: events.Ended) -> None:
        run, position = event.run, event.position
        self._drop(run.total_steps - run.steps_at(position))
        where = f"{run.description.task_name} {position.task + 1}, step {position.step}"
        label = self._labels[run.setting_folder]
        self._console.print(f"{label} with seed {run.seed} diverged in {where}: outputs are not finite")

    def _drop(self, steps: int) -> None:
        """Steps that nobody will make: counted as work, they would make the time left wrong."""
        self._bar.update(self._total, total=(self._bar.tasks[0].total or 0) - steps)

    def _view(self) -> Group:
        shown = range(max(0, self._latest - COLUMNS + 1), self._latest + 1)
        table = Table(f"{self._score} in {self._task_name}", *(str(task + 1) for task in shown), box=None)
        for label, tasks in self._scores.items():
            cells = [short_number(mean(tasks[task])) if task in tasks else "" for task in shown]
            table.add_row(label, *cells)
        return Group(table, self._bar)
