"""What the runs in a folder are doing, for people and for scripts."""

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from adalin.executors import RunStatus, Status
from adalin.report._progress import duration
from adalin.report._summary import label_runs
from adalin.report._table import short_number

COLOURS = {
    "done": "green",
    "running": "cyan",
    "waiting": "blue",
    "stopped": "yellow",
    "failed": "red",
    "diverged": "magenta",
}
FAILURES = 5
"""How many failures are shown; the rest is counted."""


def status_view(status: Status) -> RenderableType:
    """How many runs are in each state, by setting; speed, time left, the best so far, and what went wrong."""
    settings: dict[Path, list[RunStatus]] = {}
    for one in status.runs:
        settings.setdefault(one.run.folder.parent, []).append(one)
    benchmarks = dict.fromkeys(one.run.benchmark for one in status.runs)
    labels: dict[Path, str] = {}
    for benchmark in benchmarks:
        labels |= label_runs([one.run for one in status.runs if one.run.benchmark == benchmark])
    states = [state for state, count in status.counts.items() if count]
    table = Table("benchmark", "setting", *states, "tasks", "score", box=None)
    for folder, members in settings.items():
        counts = [sum(one.state == state for one in members) for state in states]
        cells = [Text(str(count or ""), COLOURS[state]) for state, count in zip(states, counts, strict=True)]
        scores = [one.score for one in members if one.score is not None]
        tasks = f"{sum(len(one.rows) for one in members)}/{sum(one.run.tasks for one in members)}"
        score = short_number(sum(scores) / len(scores)) if scores else ""
        table.add_row(members[0].run.benchmark, labels[folder], *cells, tasks, score)
    failed = [one for one in status.runs if one.state == "failed"]
    wrong = [f"failed: {one.run.folder}: {one.message}" for one in failed[:FAILURES]] + status.problems
    if len(failed) > FAILURES:
        wrong.append(f"and {len(failed) - FAILURES} more have failed")
    best = [
        Text(f"best on {benchmark}: {labels[run.folder.parent]}, {short_number(score)}")
        for benchmark, (run, score) in status.best.items()
    ]
    return Group(table, _line(status), *best, *(Text(text, "red") for text in wrong))


def _line(status: Status) -> Text:
    parts = [f"{count} {state}" for state, count in status.counts.items() if count] or ["no runs"]
    if total := sum(one.run.total_steps for one in status.runs):
        parts.append(f"{sum(one.steps for one in status.runs) / total:.0%} of all steps")
    if status.steps_per_second is not None:
        parts.append(f"{status.steps_per_second:,.0f} steps/s")
    if status.seconds_left:
        parts.append(f"about {duration(status.seconds_left)} left")
    return Text(", ".join(parts), "bold")


def status_json(status: Status) -> dict[str, Any]:
    """The same, made of what JSON has."""
    return {
        "counts": status.counts,
        "steps_per_second": status.steps_per_second,
        "seconds_left": status.seconds_left,
        "best": {
            name: {"method": run.method, "settings": str(run.folder.parent), "score": score}
            for name, (run, score) in status.best.items()
        },
        "runs": [
            {
                "folder": str(one.run.folder),
                "benchmark": one.run.benchmark,
                "method": one.run.method,
                "seed": one.run.seed,
                "state": one.state,
                "tasks": len(one.rows),
                "of_tasks": one.run.tasks,
                "steps": one.steps,
                "of_steps": one.run.total_steps,
                "score": one.score,
                "message": one.message,
            }
            for one in status.runs
        ],
        "problems": status.problems,
    }
