"""Numbers in the sentences of a page, each made from results by the comment before it.

ReLU is at <!--last random-label-mnist baseline-->0.11 in the end.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from numpy.lib.stride_tricks import sliding_window_view

from adalin.report import Summary, Values, end_window
from adalin.studies._evidence import PaperRuns

NUMBER = re.compile(
    r"<!--(?P<what>[a-z-]+) (?P<benchmark>[\w-]+) (?P<method>[\w:=,.+-]+)(?: (?P<task>\d+))?-->(?P<shown>\d+\.\d+)"
)
"""A number with what it is, on which benchmark, of which method, and in which task."""


def _mean(summary: Summary, metric: str = "online_accuracy") -> Values:
    values: Values = summary.scores(metric).mean(0)
    return values


def _runs_of_tasks(summary: Summary) -> Values:
    mean = _mean(summary)
    windows: Values = sliding_window_view(mean, end_window(len(mean))).mean(-1)
    return windows


def _last(values: Values) -> float:
    return float(values[-end_window(len(values)) :].mean())


KINDS: Mapping[str, Callable[[Summary, int], float]] = {
    "all": lambda summary, task: float(_mean(summary).mean()),
    "first": lambda summary, task: float(_mean(summary)[: end_window(summary.tasks)].mean()),
    "last": lambda summary, task: _last(_mean(summary)),
    "task": lambda summary, task: float(_mean(summary)[task - 1]),
    "best": lambda summary, task: float(_runs_of_tasks(summary).max()),
    "peak": lambda summary, task: float(_mean(summary).max()),
    "fall": lambda summary, task: float(_runs_of_tasks(summary).max() - _runs_of_tasks(summary)[-1]),
    "test": lambda summary, task: float(_mean(summary, "test_accuracy").mean()),
    "last-test": lambda summary, task: _last(_mean(summary, "test_accuracy")),
    "first-test": lambda summary, task: float(_mean(summary, "test_accuracy")[0]),
}
"""Means over seeds: of all tasks, the first or last five, one task, the best five in a row, the best one, how far the
last five are below the best five; and of test accuracy over all tasks, the last five and the first."""


def fill_numbers(text: str, summaries: Sequence[Summary]) -> str:
    """The text with its numbers made anew, with as many decimals as they have.

    Raises ValueError for a number that results do not give.
    """
    runs = PaperRuns(summaries)

    def made(found: re.Match[str]) -> str:
        benchmark, method = found["benchmark"], found["method"]
        known = {summary.config["method"]: summary for summary in runs.at_the_papers_scale(benchmark)}
        if found["what"] not in KINDS or method not in known:
            raise ValueError(f"no number for {found[0]!r}: there is {', '.join(KINDS)}, of methods with results")
        value = KINDS[found["what"]](known[method], int(found["task"] or 0))
        decimals = len(found["shown"].partition(".")[2])
        return found[0].removesuffix(found["shown"]) + f"{value:.{decimals}f}"

    return NUMBER.sub(made, text)
