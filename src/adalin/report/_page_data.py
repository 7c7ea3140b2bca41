"""What the page draws, as plain JSON values: a curve per metric and seed, and heat maps over neurons and tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from adalin.metrics import metrics
from adalin.report._style import Style, styles_of
from adalin.report._summary import Summary
from adalin.training import AnyRun

SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "*": "star",
}
"""matplotlib's markers in plotly's words."""
COUNTS = {"task", "env_step"}
"""Numbers of a row that say where it is, not what was measured."""
MAPS = ("alpha", "saturation")
COLUMNS, MIN_COLUMNS, ENOUGH_MAPS = 125, 25, 12
"""A heat map has at most that many tasks; fewer where there are more maps than that, so that the page stays small."""


@dataclass(frozen=True, eq=False)
class Section:
    """The settings of one benchmark on one data source: what can be compared."""

    anchor: str
    run: AnyRun
    """One of them, for what they have in common."""
    source: str
    summaries: tuple[Summary, ...]

    @property
    def bundled(self) -> bool:
        return "bundled" in self.source

    @cached_property
    def styles(self) -> list[Style]:
        """One for each summary."""
        return styles_of([summary.run.method for summary in self.summaries])

    @property
    def metrics(self) -> list[str]:
        """Those with a number per task: the score, then in the registry's order, then others by name."""
        rows = (row for summary in self.summaries for result in summary.results for row in result.rows)
        found = {name for row in rows for name, value in row.items() if _is_number(value)} - COUNTS
        known = [name for name in (self.run.score, self.run.test_score, *metrics()) if name in found]
        return list(dict.fromkeys(known)) + sorted(found - set(known))


def make_sections(summaries: Sequence[Summary]) -> list[Section]:
    """By benchmark and source, in the order in which they appear."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        result = summary.results[0]
        groups.setdefault((result.run.benchmark, result.source), []).append(summary)
    sections, anchors = list[Section](), set[str]()
    for (name, source), members in groups.items():
        anchor = name if name not in anchors else f"{name}-{len(sections) + 1}"
        anchors.add(anchor)
        sections.append(Section(anchor, members[0].run, source, tuple(members)))
    return sections


def chart_data(sections: Sequence[Section]) -> dict[str, Any]:
    """For page.js; mean and deviation are left to it, as they follow from the seeds."""
    described = {name: metric.summary for name, metric in metrics().items()}
    return {
        "metrics": {name: described.get(name, "") for section in sections for name in section.metrics},
        "benchmarks": [_section_data(section) for section in sections],
    }


def _section_data(section: Section) -> dict[str, Any]:
    names = section.metrics
    columns = max(MIN_COLUMNS, COLUMNS * ENOUGH_MAPS // max(ENOUGH_MAPS, len(section.summaries)))
    settings = []
    for summary, style in zip(section.summaries, section.styles, strict=True):
        settings.append(
            {
                "label": summary.label,
                "colour": style.colour,
                "dash": style.dash,
                "symbol": SYMBOLS[style.marker],
                "seeds": summary.seeds,
                "curves": {name: _curves(summary, name) for name in names if summary.tasks and summary.has(name)},
                "diverged": [
                    {"seed": result.run.seed, "task": result.position["task"] + 1, "step": result.position["step"]}
                    for result in summary.results
                    if result.state == "diverged"
                ],
                "maps": _maps(summary, columns),
            }
        )
    return {
        "anchor": section.anchor,
        "name": section.run.benchmark,
        "task": section.run.task_name,
        "stepsPerTask": section.run.steps_per_task,
        "metrics": names,
        "settings": settings,
    }


def _curves(summary: Summary, metric: str) -> list[list[float | None]]:
    return [[significant(value) for value in line] for line in summary.scores(metric).tolist()]


def _maps(summary: Summary, columns: int) -> dict[str, Any] | None:
    """Of the first seed that has any: per layer the neurons' values over tasks, in thousandths as those are shorter."""
    for result in sorted(summary.results, key=lambda one: one.state == "diverged"):
        rows = [row for row in result.rows if any(row.get(name) for name in MAPS)]
        if not rows:
            continue
        chosen = sorted({round(index) for index in np.linspace(0, len(rows) - 1, min(columns, len(rows)))})
        shown = [rows[index] for index in chosen]
        return {
            "seed": result.run.seed,
            "tasks": [row["task"] + 1 for row in shown],
            **{name: _layers([row.get(name) for row in shown]) for name in MAPS},
        }
    return None


def _layers(tasks: Sequence[Sequence[Any] | None]) -> list[list[list[int | None]] | None]:
    """(tasks, layers, neurons) turned into (layers, neurons, tasks); None for a layer that never has values."""
    layers: list[list[list[int | None]] | None] = []
    for layer in range(max((len(task) for task in tasks if task), default=0)):
        columns = [_list(task[layer]) if task and layer < len(task) else [] for task in tasks]
        neurons = max(len(column) for column in columns)
        by_neuron = [[_thousandths(column, neuron) for column in columns] for neuron in range(neurons)]
        layers.append(by_neuron or None)
    return layers


def _list(value: Any) -> list[Any]:
    """A layer's values; a single alpha for a whole layer is a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _thousandths(column: Sequence[Any], neuron: int) -> int | None:
    return round(1_000 * column[neuron]) if neuron < len(column) and _is_number(column[neuron]) else None


def significant(value: float) -> float | None:
    """With 5 digits; JSON has no NaN."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
