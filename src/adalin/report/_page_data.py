"""What the page shows, before any HTML: sections, what became of plasticity, curves and heat maps as JSON values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from adalin.data import DIGITS_SHA256
from adalin.metrics import metrics
from adalin.report._statistics import MARGIN, Interval, Values, plasticity, t_quantile
from adalin.report._style import Style, styles_of
from adalin.report._summary import Summary
from adalin.runs import Result, Run

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
AT_FIRST = 8
"""Number of methods that the page shows before a reader asks for more."""
MAPS = ("alpha", "saturation")
"""Metrics with a value per neuron that are shown as heat maps."""
MAP_COLUMNS = 125 * 12
"""Tasks that the heat maps of a section show together, so that the page stays small: from 25 to 125 in each."""


@dataclass(frozen=True, eq=False)
class Section:
    """The settings of one benchmark on one data source: what can be compared."""

    anchor: str
    """Name of the section in links."""
    run: Run[Any]
    """Any of the runs, for what all have in common."""
    source: str
    """Data source, for people."""
    summaries: tuple[Summary, ...]
    """Settings in the order of the page."""

    @property
    def bundled(self) -> bool:
        """Whether the data are the bundled digits."""
        return self.run.config.get("data") == DIGITS_SHA256

    def changed(self, summary: Summary) -> dict[str, Any]:
        """Settings of a summary that are not the benchmark's own."""
        own = self.run.description.own
        return {name: value for name, value in summary.run.description.settings.items() if value != own[name]}

    @property
    def results(self) -> list[Result]:
        """Runs of all settings."""
        return [result for summary in self.summaries for result in summary.results]

    @cached_property
    def styles(self) -> list[Style]:
        """Style of each summary."""
        return styles_of([summary.run.method for summary in self.summaries])

    @property
    def metrics(self) -> list[str]:
        """Metrics with a number per task: the score, then in the registry's order, then others by name."""
        found = set[str]()
        for result in self.results:
            for row in result.rows:
                found.update(name for name, value in row.items() if _is_number(value))
        found -= COUNTS
        known = [
            name for name in (self.run.description.score, self.run.description.test_score, *metrics()) if name in found
        ]
        return list(dict.fromkeys(known)) + sorted(found - set(known))


@dataclass(frozen=True)
class Fate:
    """What became of a setting's plasticity."""

    word: Literal["loses", "keeps", "gains", "unclear", "diverged", "unfinished"]
    """Fate in a word."""
    change: Interval | None = None
    """Change of online accuracy from the first tasks to the last, unless it is unknown."""


def fate_of(summary: Summary) -> Fate:
    """A setting's fate, by the tasks that its seeds have finished."""
    diverged = summary.diverged
    if diverged == len(summary.results):
        return Fate("diverged")
    if summary.tasks < 2:
        return Fate("unfinished")
    found = plasticity(summary.scores(), chance=summary.run.description.chance, diverged=diverged)
    if math.isnan(found.change.value):
        return Fate("unfinished")
    if found.lost:
        return Fate("loses", found.change)
    if not found.kept:
        return Fate("unclear", found.change)
    return Fate("gains" if found.change.low > MARGIN else "keeps", found.change)


def make_sections(summaries: Sequence[Summary]) -> list[Section]:
    """Sections by benchmark and source, in the order in which they appear."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        result = summary.results[0]
        groups.setdefault((result.run.benchmark, result.source), []).append(summary)
    sections: dict[str, Section] = {}
    for (name, source), members in groups.items():
        anchor = f"{name}-{len(sections) + 1}" if name in sections else name
        sections[anchor] = Section(anchor, members[0].run, source, tuple(members))
    return list(sections.values())


def by_row(section: Section) -> dict[str, Summary]:
    """Summaries by row of the matrix: the benchmark's own setting is that of its method, also where it has others."""
    rows: dict[str, Summary] = {}
    for summary in section.summaries:
        is_own = section.changed(summary).keys() <= {"tasks"}
        rows[summary.run.method if is_own and summary.run.method not in rows else summary.label] = summary
    return rows


def chart_data(sections: Sequence[Section]) -> dict[str, Any]:
    """The data of page.js, which computes mean and deviation, as they follow from the seeds."""
    described = {name: metric.summary for name, metric in metrics().items()}
    most_seeds = max((len(summary.seeds) for section in sections for summary in section.summaries), default=0)
    return {
        "tQuantiles": [t_quantile(freedom) for freedom in range(1, most_seeds)],
        "metrics": {name: described.get(name, "") for section in sections for name in section.metrics},
        "benchmarks": [_section_data(section) for section in sections],
    }


def _section_data(section: Section) -> dict[str, Any]:
    names = section.metrics
    columns = min(125, max(25, MAP_COLUMNS // len(section.summaries)))
    rows = {summary: name for name, summary in by_row(section).items()}
    settings = [
        {
            "label": summary.title,
            "row": rows.get(summary, summary.label),
            "colour": style.colour,
            "dash": style.dash,
            "symbol": SYMBOLS[style.marker],
            "seeds": summary.seeds,
            "curves": {name: _curves(summary, name) for name in names if summary.tasks and summary.has(name)},
            "totals": [_mean(line) for line in summary.scores()] if summary.tasks else [],
            "diverged": [
                {"seed": result.run.seed, "task": result.position.task + 1, "step": result.position.step}
                for result in summary.results
                if result.state == "diverged"
            ],
            "maps": _maps(summary, columns),
        }
        for summary, style in zip(section.summaries, section.styles, strict=True)
    ]
    return {
        "anchor": section.anchor,
        "name": section.run.description.title,
        "score": section.run.description.score,
        "task": section.run.description.task_name,
        "stepsPerTask": section.run.description.steps_per_task,
        "metrics": names,
        "settings": settings,
    }


def _curves(summary: Summary, metric: str) -> list[list[float | None]]:
    return [[significant(value) for value in line] for line in summary.values(metric).tolist()]


def _mean(values: Values) -> float | None:
    """The mean of those tasks that have a number."""
    known = values[np.isfinite(values)]
    return significant(float(known.mean())) if len(known) else None


def _maps(summary: Summary, columns: int) -> dict[str, Any] | None:
    """Heat maps of the first seed that has any: per layer the neurons' values over tasks, in thousandths."""
    for result in sorted(summary.results, key=lambda result: result.state == "diverged"):
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
    """Values (tasks, layers, neurons) turned into (layers, neurons, tasks); None for a layer that never has any."""
    layers = []
    for values in zip_longest(*(task or [] for task in tasks)):
        neurons = zip_longest(*(_list(value) for value in values))
        layers.append([[_thousandths(value) for value in neuron] for neuron in neurons] or None)
    return layers


def _list(value: Any) -> list[Any]:
    """A layer's values; a single alpha for a whole layer counts as one neuron's."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _thousandths(value: Any) -> int | None:
    return round(1_000 * value) if _is_number(value) else None


def significant(value: float) -> float | None:
    """A number with 5 digits; None for NaN and infinity, which JSON lacks."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
