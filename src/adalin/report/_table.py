"""Results as a table for the terminal."""

from collections.abc import Sequence
from statistics import mean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from adalin.report._summary import Summary


def results_table(summaries: Sequence[Summary], title: str) -> Table:
    """Per method: online accuracy in the first and last task and over all, and how far its runs are."""
    tested = any(summary.tasks and summary.total("test_accuracy") for summary in summaries)
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", min_width=16)
    for name in ("seeds", "task 1", "last", "all tasks", *(["all tasks, test"] if tested else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("runs", min_width=4)
    for summary in summaries:
        cells = ["-"] * (3 + tested)
        if summary.tasks:
            cells = [
                f"{mean(summary.values('online_accuracy', 0)):.3f}",
                f"{mean(summary.values('online_accuracy', summary.tasks - 1)):.3f}",
                _text(summary.total()),
                *([_text(summary.total("test_accuracy"))] if tested else []),
            ]
        table.add_row(summary.method, str(len(summary.results)), *cells, _states(summary))
    return table


def _text(value: tuple[float, float] | None) -> str:
    return "-" if value is None else f"{value[0]:.3f} ± {value[1]:.3f}"


def _states(summary: Summary) -> str:
    states = []
    for result in summary.results:
        position = result.position
        if result.state == "done":
            states.append("done")
        elif result.state == "diverged":
            states.append(f"diverged (task {position['task'] + 1}, step {position['step']})")
        else:
            states.append(f"{position['task']}/{result.run.tasks} tasks")
    return ", ".join(dict.fromkeys(states))
