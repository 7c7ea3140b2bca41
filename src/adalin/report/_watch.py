"""What the runs in a folder are doing, for people and for scripts."""

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from adalin._text import duration, printable
from adalin.executors import RunStatus, Status
from adalin.report._style import rank_of
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
    for found in status.runs:
        settings.setdefault(found.run.setting_folder, []).append(found)
    labels: dict[Path, str] = {}
    places = list(dict.fromkeys(found.run.benchmark for found in status.runs))
    for benchmark in places:
        labels |= label_runs([found.run for found in status.runs if found.run.benchmark == benchmark])
    states = [state for state, count in status.counts.items() if count]
    table = Table("benchmark", "setting", *states, "tasks", "score", box=None)
    in_order = sorted(
        settings.items(), key=lambda item: (places.index(item[1][0].run.benchmark), rank_of(item[1][0].run.method))
    )
    for folder, members in in_order:
        counts = [sum(member.state == state for member in members) for state in states]
        cells = [Text(str(count or ""), COLOURS[state]) for state, count in zip(states, counts, strict=True)]
        scores = [member.score for member in members if member.score is not None]
        tasks = f"{sum(len(member.rows) for member in members)}/{sum(member.run.tasks for member in members)}"
        score = short_number(sum(scores) / len(scores)) if scores else ""
        table.add_row(members[0].run.benchmark, labels[folder], *cells, tasks, score)
    failed = [found for found in status.runs if found.state == "failed"]
    wrong = [f"failed: {found.run.folder}: {found.message}" for found in failed[:FAILURES]] + status.problems
    if len(failed) > FAILURES:
        wrong.append(f"and {len(failed) - FAILURES} more have failed")
    best = [
        Text(f"best on {benchmark}: {labels[run.setting_folder]}, {short_number(score)}")
        for benchmark, (run, score) in status.best.items()
    ]
    return Group(table, _line(status), *best, *(Text(printable(text), "red") for text in wrong))


def _line(status: Status) -> Text:
    parts = [f"{count} {state}" for state, count in status.counts.items() if count] or ["no runs"]
    if total := sum(found.wanted_steps for found in status.runs):
        parts.append(f"{sum(found.steps for found in status.runs) / total:.0%} of all steps")
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
            name: {"method": run.method, "settings": str(run.setting_folder), "score": score}
            for name, (run, score) in status.best.items()
        },
        "runs": [
            {
                "folder": str(found.run.folder),
                "benchmark": found.run.benchmark,
                "method": found.run.method,
                "seed": found.run.seed,
                "state": found.state,
                "tasks": len(found.rows),
                "of_tasks": found.run.tasks,
                "steps": found.steps,
                "of_steps": found.wanted_steps,
                "score": found.score,
                "message": found.message,
            }
            for found in status.runs
        ],
        "problems": status.problems,
    }
