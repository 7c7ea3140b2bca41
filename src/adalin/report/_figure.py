"""Accuracy over tasks, as a picture."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from adalin.report._summary import Summary

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#4D4D4D")
"""Okabe and Ito's, told apart by people who are colour-blind; black and yellow replaced."""
MARKERS = "osD^vPX*"


def accuracy_figure(
    summaries: Sequence[Summary], *, title: str, note: str = "", metric: str = "online_accuracy"
) -> Figure:
    """One line per method: the mean over seeds, with a band of one standard deviation."""
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    for index, summary in enumerate(summaries):
        if not summary.tasks:
            continue
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        means, deviations = zip(*summary.curve(metric), strict=True)
        tasks = range(1, len(means) + 1)
        every = max(1, len(means) // 15)
        axes.plot(tasks, means, color=colour, marker=marker, markevery=every, markersize=4, label=summary.method)
        low, high = zip(*((m - d, m + d) for m, d in zip(means, deviations, strict=True)), strict=True)
        axes.fill_between(tasks, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("task")
    axes.set_ylabel(metric.replace("_", " "))
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    if note:
        figure.supxlabel(note, fontsize="x-small", color="#555555", x=0.01, ha="left")
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
