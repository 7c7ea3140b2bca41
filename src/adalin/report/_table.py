"""Results as a table for the terminal."""

from collections.abc import Sequence

from rich.table import Table

from adalin.report._summary import Summary, spread


def results_table(summaries: Sequence[Summary], title: str) -> Table:
    """Per method: online accuracy in the first and last task and over all, and how far its runs are."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("method", "seeds", "first task", "last task", "all tasks", "test", "runs"):
        table.add_column(name, justify="left" if name in ("method", "runs") else "right", no_wrap=name == "method")
    for summary in summaries:
        cells = ["-"] * 4
        if summary.tasks:
            test = summary.total("test_accuracy")
            cells = [
                _text(spread(summary.values("online_accuracy", 0))),
                _text(spread(summary.values("online_accuracy", summary.tasks - 1))),
                _text(summary.total()),
                "-" if test is None else _text(test),
            ]
        seeds = " ".join(str(result.run.seed) for result in summary.results)
        table.add_row(summary.method, seeds, *cells, _states(summary))
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
            states.append(f"diverged (task {position['task']}, step {position['step']})")
        else:
            states.append(f"{position['task']}/{result.run.tasks} tasks")
    return ", ".join(dict.fromkeys(states))
