"""A metric over tasks, as a picture."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from adalin.metrics import is_accuracy
from adalin.report._files import check_parent, replaced
from adalin.report._style import GREY, styles_of
from adalin.report._summary import Summary, mean_and_deviation

DASHES = {"solid": "-", "dash": "--"}
LOST = "lost: the run diverged"
"""What the mark of a run that diverged says in legends."""


def curves_figure(summaries: Sequence[Summary], *, title: str, note: str = "", metric: str | None = None) -> Figure:
    """One line per setting: the mean over seeds, with a band of one standard deviation; crosses where runs diverged."""
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    draw_curves(axes, summaries, metric)
    axes.set_title(title, loc="left", fontweight="bold")
    if axes.lines:
        handles, labels = legend_of([axes])
        axes.legend(handles, labels, frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    if note:
        figure.supxlabel(note, fontsize="x-small", color="#555555", x=0.01, ha="left")
    return figure


def draw_curves(axes: Axes, summaries: Sequence[Summary], metric: str | None = None) -> None:
    """The lines, bands and axes of one panel; without a metric, of the score.

    A line is the mean of those runs that still train. A run that diverged ends in a cross.
    """
    metric = metric or (summaries[0].run.description.score if summaries else "online_accuracy")
    styles = styles_of([summary.run.method for summary in summaries])
    for summary, style in zip(summaries, styles, strict=True):
        if not summary.has(metric):
            continue
        mean, deviation = mean_and_deviation(summary.values(metric))
        tasks = np.arange(1, len(mean) + 1) * (summary.run.description.steps_per_task or 1)
        axes.plot(
            tasks,
            mean,
            color=style.colour,
            linestyle=DASHES[style.dash],
            marker=style.marker,
            markevery=max(1, len(mean) // 12),
            markersize=4,
            linewidth=1.5,
            zorder=3,
            label=summary.title,
        )
        low, high = mean - deviation, mean + deviation
        axes.fill_between(tasks, low, high, color=style.colour, alpha=0.15, linewidth=0, zorder=1)
        lost = _ends_of_diverged(summary, metric)
        if lost:
            axes.plot(
                *zip(*lost, strict=True), "X", color=style.colour, markersize=9, markeredgecolor="white", zorder=4
            )
    in_steps = any(summary.run.description.steps_per_task for summary in summaries)
    axes.set_xlabel("steps in the environment" if in_steps else "task")
    axes.set_ylabel(metric.replace("_", " "))
    if is_accuracy(metric):
        axes.set_ylim(0, 1 if axes.get_ylim()[1] > 0.5 else None)
    axes.xaxis.set_major_locator(MaxNLocator(5 if in_steps else "auto", integer=True))  # steps are long numbers
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)


def share_accuracies(panels: Sequence[Axes]) -> None:
    """Give panels of accuracies, which begin at 0, the same scale."""
    top = max((axes.get_ylim()[1] for axes in panels), default=1.0)
    if all(axes.get_ylim()[0] == 0 for axes in panels) and top <= 1:
        for axes in panels:
            axes.set_ylim(0, top)


def _ends_of_diverged(summary: Summary, metric: str) -> list[tuple[float, float]]:
    """The last point of each run that diverged: where it is in the figure, and its value."""
    unit = summary.run.description.steps_per_task or 1
    ends = []
    for result, values in zip(summary.results, summary.values(metric), strict=True):
        known = np.flatnonzero(np.isfinite(values))
        if result.state == "diverged" and len(known):
            ends.append(((known[-1] + 1) * unit, values[known[-1]]))
    return ends


def legend_of(panels: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """The lines of panels with their labels, each once, and the cross if any panel has one."""
    labels: dict[str, Artist] = {}
    for axes in panels:
        labels |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if any(line.get_marker() == "X" and line.get_linestyle() == "None" for axes in panels for line in axes.lines):
        labels[LOST] = Line2D([], [], marker="X", color=GREY, linestyle="none", markersize=9, markeredgecolor="white")
    return list(labels.values()), list(labels)


def check_figure_path(path: Path) -> Path:
    """Raises ValueError, before hours of training, if no picture can be written there."""
    if path.suffix.lower() not in WRITERS:
        raise ValueError(f"a picture's name ends in {', '.join(WRITERS)}, not {path.name!r}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the picture a name of its own")
    return path


def save_figure(figure: Figure, *paths: Path) -> None:
    """Write a figure to files, each in the format that the ending of its name says, all with the first one's layout."""
    for path in paths:
        check_parent(check_figure_path(path))
    layout = figure.get_layout_engine()
    figure.set_dpi(150)
    for path in paths:
        with replaced(path) as unfinished:
            # Figure.savefig would draw everything twice.
            WRITERS[path.suffix.lower()](figure, unfinished)
        figure.set_layout_engine("none")
    figure.set_layout_engine(layout)


def _write_png(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure).print_png(path)


def _write_pdf(figure: Figure, path: Path) -> None:
    FigureCanvasPdf(figure).print_pdf(path)


def _write_svg(figure: Figure, path: Path) -> None:
    FigureCanvasSVG(figure).print_svg(path)


WRITERS: dict[str, Callable[[Figure, Path], None]] = {".png": _write_png, ".pdf": _write_pdf, ".svg": _write_svg}
