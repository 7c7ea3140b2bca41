"""Results as a table for the terminal."""

from collections.abc import Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from adalin.report._statistics import Values
from adalin.report._summary import Summary
from adalin.runs import Result


def results_table(summaries: Sequence[Summary], title: str) -> Table:
    """Per setting: how many tasks count, the score in the first and last of them and over all, how far its runs are."""
    test_score = summaries[0].run.description.test_score if summaries else ""
    tested = any(summary.has(test_score) for summary in summaries)
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    task = summaries[0].run.description.task_name if summaries else "task"
    heads = ["seeds", f"{task}s", "first", "last", f"all {task}s"]
    if tested:
        heads.append(f"all {task}s, {test_score.partition('_')[0]}")
    for name in heads:
        table.add_column(name, justify="right")
    table.add_column("runs")
    for summary in summaries:
        values = summary.scores()
        cells = [str(len(summary.results)), str(summary.tasks)]
        if summary.tasks:
            cells += [mean_text(values[:, 0]), mean_text(values[:, -1])]
        else:
            cells += ["-", "-"]
        cells.append(spread(summary.total()))
        if tested:
            cells.append(spread(summary.total(test_score)))
        states = dict.fromkeys(state_text(result) for result in summary.results)
        texts = (summary.label, *cells, ", ".join(states))
        table.add_row(*map(Text, texts))  # rich would look for emojis in each str, again and again
    return table


def state_text(result: Result) -> str:
    """How far a run is, in a few words."""
    position = result.position
    task_name = result.run.description.task_name
    if result.state == "diverged":
        return f"diverged ({task_name} {position.task + 1}, step {position.step})"
    return "done" if result.state == "done" else f"{position.task}/{result.run.tasks} {task_name}s"


def mean_text(values: Values) -> str:
    """The mean of those values that are numbers."""
    values = values[np.isfinite(values)]
    return short_number(values.mean()) if len(values) else "-"


def spread(values: Values) -> str:
    """Mean and sample standard deviation; of one value, the value alone."""
    if len(values) < 2:
        return mean_text(values)
    mean, deviation = values.mean(), values.std(ddof=1)
    return f"{short_number(mean)} ± {short_number(deviation, like=mean)}"


def short_number(value: float, *, like: float | None = None) -> str:
    """Accuracies with three digits, returns without any; a deviation `like` its mean."""
    return f"{value:.3f}" if abs(value if like is None else like) < 10 else f"{value:,.0f}"
