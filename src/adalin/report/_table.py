"""Results as a table for the terminal."""

from collections.abc import Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from adalin.report._summary import Summary, Values
from adalin.training import Result


def results_table(summaries: Sequence[Summary], title: str) -> Table:
    """Per setting: how many tasks count, the score in the first and last of them and over all, how far its runs are."""
    test_score = summaries[0].run.test_score if summaries else ""
    tested = any(summary.has(test_score) for summary in summaries)
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    task = summaries[0].run.task_name if summaries else "task"
    heads = ["seeds", f"{task}s", "first", "last", f"all {task}s"]
    for name in [*heads, f"all {task}s, {test_score.partition('_')[0]}"] if tested else heads:
        table.add_column(name, justify="right")
    table.add_column("runs")
    for summary in summaries:
        values = summary.scores()
        ends = (values[:, 0], values[:, -1]) if summary.tasks else ()
        cells = [mean_text(end) for end in ends] or ["-", "-"]
        cells += [spread(summary.total(metric)) for metric in (None, test_score)[: 1 + tested]]
        states = dict.fromkeys(state_text(result) for result in summary.results)
        counts = (str(len(summary.results)), str(summary.tasks))
        table.add_row(summary.label, *counts, *cells, ", ".join(states))
    return table


def state_text(result: Result) -> str:
    """How far a run is, in a few words."""
    position = result.position
    if result.state == "diverged":
        return f"diverged ({result.run.task_name} {position['task'] + 1}, step {position['step']})"
    return "done" if result.state == "done" else f"{position['task']}/{result.run.tasks} {result.run.task_name}s"


def mean_text(values: Values) -> str:
    """Of those that are numbers."""
    values = values[np.isfinite(values)]
    return short_number(values.mean()) if len(values) else "-"


def spread(values: Values) -> str:
    """Mean and sample standard deviation, which one value has not."""
    if len(values) < 2:
        return mean_text(values)
    mean, deviation = values.mean(), values.std(ddof=1)
    return f"{short_number(mean)} ± {short_number(deviation, like=mean)}"


def short_number(value: float, *, like: float | None = None) -> str:
    """Accuracies with three digits, returns without any; a deviation `like` its mean."""
    return f"{value:.3f}" if abs(value if like is None else like) < 10 else f"{value:,.0f}"
