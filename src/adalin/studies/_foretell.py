"""Which metric, if any, foretells that a network will learn less: by all recorded runs, beside today's accuracy.

At the end of task t a fall is ahead if the accuracy of tasks t + 9 to t + 11 is more than 0.05 below that of t - 1 and
t. Asked are only networks that still learn. A metric warns by a rank: how likely it is worse before a fall than where
none follows (AUC; 0.5 is a coin).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adalin.methods import Method
from adalin.report import GREY, MARGIN, NEAR_CHANCE, Interval, Summary, Values, style_of
from adalin.streams import get_benchmark
from adalin.studies._drawings import Panel
from adalin.studies._evidence import PaperRuns
from adalin.studies._paper import MAIN_BENCHMARKS

AHEAD = 10
"""Tasks between a row and the middle of the three that tell whether a fall has come."""
LEAST_FALLS = 30
"""Fewer falls rank nothing."""
DRAWS = 2000
"""Resamples of methods: the ends of the intervals then stay within a hundredth."""
ACCURACY = "online_accuracy"
METRICS: Mapping[str, int] = {
    ACCURACY: -1,
    "loss": 1,
    "sign_entropy": -1,
    "srank": -1,
    "weight_srank": -1,
    "dormant": 1,
    "weight_norm": 1,
    "gradient_norm": -1,
}
"""Metrics by name, with the direction that warns by what the literature says: 1 if it is a large value."""
NAMES = {
    ACCURACY: "today's accuracy",
    "loss": "loss",
    "sign_entropy": "sign entropy, low",
    "srank": "rank of the features, low",
    "weight_srank": "rank of the weights, low",
    "dormant": "dormant units, many",
    "weight_norm": "weight norm, large",
    "gradient_norm": "gradient norm, small",
}
"""What people call them, and what warns."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one method on one benchmark, all seeds together: networks that still learn."""

    method: str
    """Text of the method."""
    metrics: dict[str, Values]
    """Each metric, turned so that large values warn."""
    falls: NDArray[np.bool_]
    """Whether a fall is ahead."""
    changes: dict[str, float]
    """Rank correlation of a metric's change with the next change of accuracy, mean over seeds; not turned."""


@dataclass(frozen=True, eq=False)
class Foretelling:
    """Rows of all methods on one benchmark."""

    benchmark: str
    """Name of the benchmark."""
    rows: Sequence[Rows]
    """Rows of each method."""

    @property
    def falls(self) -> int:
        """Number of rows with a fall ahead."""
        return sum(int(rows.falls.sum()) for rows in self.rows)

    @property
    def can_rank(self) -> bool:
        """Whether there are falls enough, of two methods at least."""
        return self.falls >= LEAST_FALLS and sum(bool(rows.falls.any()) for rows in self.rows) > 1

    def auc(self, metric: str) -> Interval:
        """How well a metric ranks rows, with an interval over methods."""
        return self._over_methods([rows.metrics[metric] for rows in self.rows])

    def gain(self, metric: str, others: "Sequence[Foretelling]") -> Interval:
        """What a metric adds to today's accuracy: gain in AUC of both together, weighted as other benchmarks say.

        The weights are those of a logistic regression on the other benchmarks; what they are here plays no part.
        """
        weights = _logistic(others, (ACCURACY, metric))
        both = [_columns(rows, (ACCURACY, metric)) @ weights for rows in self.rows]
        alone = [rows.metrics[ACCURACY] for rows in self.rows]
        return self._over_methods(both, minus=alone)

    def change(self, metric: str) -> float:
        """Median over methods of `Rows.changes`; NaN without any."""
        known = [rows.changes[metric] for rows in self.rows if np.isfinite(rows.changes[metric])]
        return float(np.median(known)) if known else float("nan")

    def _over_methods(self, scores: Sequence[Values], minus: Sequence[Values] | None = None) -> Interval:
        pairs = _concordant(scores, self.rows)
        less = 0.0 if minus is None else _concordant(minus, self.rows)
        value = float(_share(pairs - less, self._pairs, self._whole)[0])
        draws = _share(pairs - less, self._pairs, self._drawn)
        low, high = np.nanquantile(draws, (0.025, 0.975))
        return Interval(value, float(low), float(high))

    @cached_property
    def _pairs(self) -> Values:
        """(methods, methods): pairs of a row with a fall of one method and a row without of another."""
        falls = np.array([rows.falls.sum() for rows in self.rows], dtype=np.float64)
        calm = np.array([(~rows.falls).sum() for rows in self.rows], dtype=np.float64)
        return np.outer(falls, calm)

    @property
    def _whole(self) -> Values:
        return np.ones((1, len(self.rows)))

    @cached_property
    def _drawn(self) -> Values:
        """(draws, methods): how often each method is in a resample of the methods."""
        methods = len(self.rows)
        drawn = np.random.default_rng(0).integers(methods, size=(DRAWS, methods))
        counts: Values = (drawn[:, :, None] == np.arange(methods)).sum(1).astype(np.float64)
        return counts


def foretell(summaries: Mapping[str, Sequence[Summary]]) -> list[Foretelling]:
    """All benchmarks that have summaries of two methods or more, without those that start anew in each task."""
    found = []
    for benchmark, members in summaries.items():
        tried = [_rows_of(summary) for summary in members if not _starts_anew(summary)]
        rows = [one for one in tried if one is not None]
        if len(rows) > 1:
            found.append(Foretelling(benchmark, rows))
    return found


def foretell_recorded(summaries: Sequence[Summary]) -> list[Foretelling]:
    """The same of whatever has the paper's settings."""
    runs = PaperRuns(summaries)
    return foretell({benchmark: runs.at_the_papers_scale(benchmark) for benchmark in MAIN_BENCHMARKS})


def foretelling_tables(summaries: Sequence[Summary]) -> list[tuple[Sequence[str], list[list[str]]]]:
    """Heads and rows of three tables: rows there are, how metrics rank them, and how changes follow changes."""
    every = foretell_recorded(summaries)
    ranked = [one for one in every if one.can_rank]
    counts = []
    for one in every:
        members = sum(len(rows.falls) for rows in one.rows)
        losing = sum(rows.falls.any() for rows in one.rows)
        counts.append([one.benchmark, str(len(one.rows)), f"{members:,}", str(one.falls), str(losing)])
    ranks, changes = [], []
    for metric, name in NAMES.items():
        cells = [name, *(_short(one.auc(metric)) for one in ranked)]
        for one in ranked:
            others = [other for other in ranked if other is not one]
            cells.append("-" if metric == ACCURACY or not others else _short(one.gain(metric, others), signed=True))
        ranks.append(cells)
        changes.append([name.partition(",")[0], *(_signed(one.change(metric)) for one in every)])
    names = [one.benchmark for one in ranked]
    return [
        (("benchmark", "methods", "rows of networks that learn", "with a fall ahead", "methods that fall"), counts),
        (("what warns", *(f"AUC, {name}" for name in names), *(f"gain, {name}" for name in names)), ranks),
        (("metric", *(one.benchmark for one in every)), changes),
    ]


def draw_foretelling(panels: Sequence[Panel]) -> Figure:
    """How well each metric ranks rows before a fall, beside today's accuracy: a panel for each benchmark with falls."""
    by_benchmark = {panel.summaries[0].run.description.benchmark: panel for panel in panels if panel.summaries}
    every = foretell({name: panel.summaries for name, panel in by_benchmark.items()})
    ranked = [one for one in every if one.can_rank]
    figure = Figure(figsize=(3.4 * max(1, len(ranked)) + 1.6, 3.4), layout="constrained")
    if not ranked:
        figure.text(0.5, 0.5, "no benchmark has falls enough yet", ha="center", color=GREY)
        return figure
    axes_row = figure.subplots(1, len(ranked), squeeze=False, sharey=True)[0]
    places = np.arange(len(METRICS))[::-1]
    for axes, one in zip(axes_row, ranked, strict=True):
        for place, metric in zip(places, METRICS, strict=True):
            auc = one.auc(metric)
            colour = style_of("adalin").colour if metric == ACCURACY else style_of("baseline").colour
            axes.plot([auc.low, auc.high], [place, place], color=colour, linewidth=1.5)
            axes.plot([auc.value], [place], marker="o", color=colour)
        axes.axvline(one.auc(ACCURACY).value, color=style_of("adalin").colour, linestyle=":", linewidth=1)
        axes.axvline(0.5, color=GREY, linewidth=0.8)
        axes.set_xlim(0, 1)
        axes.set_xlabel("AUC (0.5: a coin)")
        title = get_benchmark(one.benchmark).title or one.benchmark
        axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
        axes.spines[["top", "right"]].set_visible(False)
    axes_row[0].set_yticks(places, [NAMES[metric] for metric in METRICS])
    return figure


def _rows_of(summary: Summary) -> Rows | None:
    """None for too few tasks, or without a row of a network that learns and has all metrics."""
    accuracy = summary.scores()
    tasks = accuracy.shape[1]
    if tasks < AHEAD + 3:
        return None
    asked = np.arange(1, tasks - AHEAD - 1)
    now = (accuracy[:, asked - 1] + accuracy[:, asked]) / 2
    later = sum(accuracy[:, asked + AHEAD + step] for step in (-1, 0, 1)) / 3
    chance = summary.run.description.chance
    values = {metric: _usual(metric, summary) for metric in METRICS}
    known = np.all([np.isfinite(value[:, asked]) for value in values.values()], axis=0)
    use = known & np.isfinite(later) & (now > chance + NEAR_CHANCE)
    if not use.any():
        return None
    turned = {metric: METRICS[metric] * value[:, asked][use] for metric, value in values.items()}
    falls: NDArray[np.bool_] = (later < now - MARGIN)[use]
    changes = {metric: _follows(value, accuracy) for metric, value in values.items()}
    return Rows(summary.run.method, turned, falls, changes)


def _usual(metric: str, summary: Summary) -> Values:
    """Norms as logarithms, as they grow by factors; a rank of features as a share of those that a unit has."""
    values = summary.values(metric)
    if metric.endswith("_norm"):
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms: Values = np.log(np.maximum(values, 1e-30))
        return logarithms
    if metric == "srank":
        return values / Method.parse(summary.run.method).activation.expansion
    return values


def _starts_anew(summary: Summary) -> bool:
    return summary.run.method == "scratch"


def _follows(values: Values, accuracy: Values) -> float:
    """Of each seed, the rank correlation of the changes of a metric with the changes of accuracy one task later."""
    found = []
    for metric, score in zip(values, accuracy, strict=True):
        before, after = np.diff(metric)[:-1], np.diff(score)[1:]
        known = np.isfinite(before) & np.isfinite(after)
        if known.sum() > 2 and np.ptp(before[known]) > 0 and np.ptp(after[known]) > 0:
            found.append(np.corrcoef(_ranks(before[known]), _ranks(after[known]))[0, 1])
    return float(np.mean(found)) if found else float("nan")


def _ranks(values: Values) -> Values:
    """Ranks, those of equal values their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Values = (last - (counts - 1) / 2)[inverse]
    return means


def _concordant(scores: Sequence[Values], rows: Sequence[Rows]) -> Values:
    """(methods, methods): of those pairs, how many rank the row with the fall higher; ties count a half."""
    falling = [score[one.falls] for score, one in zip(scores, rows, strict=True)]
    calm = [np.sort(score[~one.falls]) for score, one in zip(scores, rows, strict=True)]
    table = np.zeros((len(rows), len(rows)))
    for line, own in zip(table, falling, strict=True):
        for column, other in enumerate(calm):
            below, not_above = (np.searchsorted(other, own, side=side) for side in ("left", "right"))
            line[column] = (below.sum() + not_above.sum()) / 2
    return table


def _share(part: Values, whole: Values, counts: Values) -> Values:
    """Of each resample of methods, the share of its pairs; NaN without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Values = np.einsum("dm,mn,dn->d", counts, part, counts) / np.einsum(
            "dm,mn,dn->d", counts, whole, counts
        )
    return shares


def _columns(rows: Rows, metrics: Sequence[str]) -> Values:
    return np.stack([rows.metrics[metric] for metric in metrics], axis=1)


def _logistic(others: Sequence[Foretelling], metrics: Sequence[str]) -> Values:
    """Weights of the metrics in a logistic regression on all rows of benchmarks, each of which counts the same."""
    tables, labels, weights = [], [], []
    for one in others:
        falls = np.concatenate([rows.falls for rows in one.rows])
        tables.append(np.concatenate([_columns(rows, metrics) for rows in one.rows]))
        labels.append(falls.astype(np.float64))
        weights.append(np.full(len(falls), 1 / len(falls)))
    inputs, label, weight = np.concatenate(tables), np.concatenate(labels), np.concatenate(weights)
    scale = inputs.std(0)
    scale[scale == 0] = 1.0
    design = np.column_stack([np.ones(len(inputs)), (inputs - inputs.mean(0)) / scale])
    beta = np.zeros(design.shape[1])
    for _ in range(25):  # Newton's steps, with a little decay so that there is an end
        chance = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (weight * (label - chance)) - 1e-4 * beta
        curvature = design.T @ (design * (weight * chance * (1 - chance))[:, None]) + 1e-4 * np.eye(len(beta))
        beta += np.linalg.solve(curvature, gradient)
    own: Values = beta[1:] / scale
    return own


def _short(interval: Interval, *, signed: bool = False) -> str:
    if signed:
        return f"{_signed(interval.value)} [{_signed(interval.low)}, {_signed(interval.high)}]"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _signed(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:+.2f}"
