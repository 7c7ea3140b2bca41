"""A metric over tasks, as a picture."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from adalin.metrics import is_accuracy
from adalin.report._files import check_parent, replaced
from adalin.report._style import styles_of
from adalin.report._summary import Summary, mean_and_deviation

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def curves_figure(summaries: Sequence[Summary], *, title: str, note: str = "", metric: str | None = None) -> Figure:
    """One line per setting: the mean over seeds, with a band of one standard deviation."""
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    draw_curves(axes, summaries, metric)
    axes.set_title(title, loc="left", fontweight="bold")
    if axes.lines:
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    if note:
        figure.supxlabel(note, fontsize="x-small", color="#555555", x=0.01, ha="left")
    return figure


def draw_curves(axes: Axes, summaries: Sequence[Summary], metric: str | None = None) -> None:
    """The lines, bands and axes of one panel; without a metric, of the score."""
    metric = metric or (summaries[0].run.description.score if summaries else "online_accuracy")
    styles = styles_of([summary.run.method for summary in summaries])
    for summary, style in zip(summaries, styles, strict=True):
        if not summary.has(metric):
            continue
        mean, deviation = mean_and_deviation(summary.scores(metric))
        tasks = np.arange(1, len(mean) + 1) * (summary.run.description.steps_per_task or 1)
        axes.plot(
            tasks,
            mean,
            color=style.colour,
            linestyle=DASHES[style.dash],
            marker=style.marker,
            markevery=max(1, len(mean) // 12),
            markersize=4,
            linewidth=1.3,
            label=summary.label,
        )
        axes.fill_between(tasks, mean - deviation, mean + deviation, color=style.colour, alpha=0.2, linewidth=0)
    in_steps = any(summary.run.description.steps_per_task for summary in summaries)
    axes.set_xlabel("steps in the environment" if in_steps else "task")
    axes.set_ylabel(metric.replace("_", " "))
    if is_accuracy(metric):
        axes.set_ylim(0, 1 if axes.get_ylim()[1] > 0.5 else None)
    axes.xaxis.set_major_locator(MaxNLocator(5 if in_steps else "auto", integer=True))  # steps are long numbers
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)


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
