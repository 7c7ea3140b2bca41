"""How sure a number is that comes from a few seeds. The unit is the seed: each gives one number."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""Numbers of runs, most often (seeds, tasks), NaN where a run has none."""

LEVEL = 0.95
"""Level of all intervals."""
MARGIN = 0.05
"""Plasticity is lost if accuracy falls by five points. Windows of tasks with easier or harder classes differ by less;
severe losses are of tens of points."""
LEAST_TASKS = 10
"""Within so many tasks ReLU loses its plasticity on random labels; fewer say nothing."""
NEAR_CHANCE = 0.1
"""Above chance; a network that still learns is far beyond it on all five benchmarks."""
AGREE = 2
"""So many of the three comparisons must agree before plasticity counts as kept or lost."""
MOST_SEEDS = 1000
"""Nobody runs more."""


@dataclass(frozen=True)
class Interval:
    """The mean over seeds and where it could as well be."""

    value: float
    """Mean over seeds."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    seeds: tuple[float, ...] = ()
    """Number of each seed."""

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def with_seeds(self) -> str:
        """The interval and what it comes from, for people."""
        return f"{self} from {', '.join(f'{seed:.3f}' for seed in self.seeds)}"

    def __truediv__(self, scale: float) -> "Interval":
        assert scale > 0, "a negative number would swap the ends"
        seeds = tuple(seed / scale for seed in self.seeds)
        return Interval(self.value / scale, self.low / scale, self.high / scale, seeds)

    def seeds_to_clear(self, threshold: float) -> int | None:
        """How many seeds, if they scatter as these do, put the whole interval on one side of a threshold.

        None if even a thousand would not, or if one seed alone says nothing about scatter.
        """
        if len(self.seeds) < 2:
            return None
        deviation = float(np.std(self.seeds, ddof=1))
        distance = abs(self.value - threshold)
        for count in range(2, MOST_SEEDS + 1):
            if t_quantile(count - 1) * deviation / math.sqrt(count) < distance:
                return count
        return None


@dataclass(frozen=True)
class Plasticity:
    """What became of plasticity: `kept`, `lost`, or neither for certain.

    Three comparisons of the last tasks (up to five), each seed with itself.
    """

    change: Interval
    """Change against the first tasks, which a cold start makes easy to beat."""
    since_start: Interval
    """Change against as many tasks after those."""
    from_best: Interval
    """Change against the best so many tasks in a row, which is never above 0."""
    end: Interval
    """Accuracy in the last tasks."""
    kept: bool
    """Whether two of the three certainly do not fall by `MARGIN`, no seed diverged and the end is far from chance."""
    lost: bool
    """Whether two of the three certainly fall by more than `MARGIN`, or all seeds diverged."""

    @property
    def comparisons(self) -> dict[str, Interval]:
        """The three comparisons by what the last tasks are held against."""
        return {"first": self.change, "next": self.since_start, "best": self.from_best}


def t_interval(per_seed: Iterable[float]) -> Interval:
    """The mean over seeds with its 95 % interval by Student's t; a single seed leaves it open on both sides."""
    seeds = tuple(float(value) for value in per_seed)
    mean = float(np.mean(seeds))
    if len(seeds) < 2:
        return Interval(mean, -math.inf, math.inf, seeds)
    half = t_quantile(len(seeds) - 1) * float(np.std(seeds, ddof=1)) / math.sqrt(len(seeds))
    return Interval(mean, mean - half, mean + half, seeds)


def mean_interval(values: Values) -> Interval:
    """The same of (seeds, tasks): each seed's number is its mean over tasks."""
    return t_interval(values.mean(1))


@cache
def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """Number t so that a Student's t of so many degrees of freedom is between -t and t with probability `level`."""
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _t_probability(angle, freedom) < level else (low, angle)
    return math.tan(low) * math.sqrt(freedom)


def _t_probability(angle: float, freedom: int) -> float:
    """Probability of |t| < sqrt(freedom) tan(angle), a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    is_odd = freedom % 2 == 1
    term = math.cos(angle) if is_odd else 1.0
    total = 0.0
    for k in range(3 if is_odd else 2, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (k - 1) / k
    share = math.sin(angle) * total
    return 2 / math.pi * (angle + share) if is_odd else share


def end_window(tasks: int) -> int:
    """How many tasks at either end of a run stand for its start and its end."""
    return max(1, min(5, tasks // 4))


def plasticity_slope(values: Values, window: int | None = None) -> Interval:
    """Mean of the last `window` tasks minus that of the first, over (seeds, tasks); below 0, plasticity was lost.

    What rises first and falls back to where it began has lost nothing by this measure: `plasticity` has two more. Of
    runs that diverged it needs the `Summary.scores`.
    """
    window = end_window(values.shape[1]) if window is None else window
    return t_interval(values[:, -window:].mean(1) - values[:, :window].mean(1))


def relative_change(values: Values, *, first: int | None = None) -> Interval:
    """The same as a share of what it was in the first tasks, up to five or `first`, for metrics that are positive."""
    window = end_window(values.shape[1])
    start = values[:, : first or window].mean(1)
    return t_interval(values[:, -window:].mean(1) / start - 1)


def plasticity(accuracy: Values, *, chance: float, diverged: int) -> Plasticity:
    """Whether (seeds, tasks) of online accuracy show that plasticity was kept or lost; `diverged` of the seeds did."""
    tasks = accuracy.shape[1]
    window = end_window(tasks)
    last = accuracy[:, -window:].mean(1)
    change = plasticity_slope(accuracy)
    since_start = t_interval(last - accuracy[:, window : 2 * window].mean(1)) if tasks > window else change
    from_best = t_interval(-falls_from_best(accuracy))
    end = t_interval(last)
    enough = tasks >= LEAST_TASKS
    three = (change, since_start, from_best)
    keeping = sum(one.low > -MARGIN for one in three)
    losing = sum(one.high < -MARGIN for one in three)
    # A run that diverges in the first task is as bad at the end as at the start, and one that never learned too.
    kept = enough and keeping >= AGREE and not diverged and end.low > chance + NEAR_CHANCE
    lost = enough and (losing >= AGREE or diverged >= len(accuracy))
    return Plasticity(change, since_start, from_best, end, kept, lost)


def falls_from_best(values: Values) -> Values:
    """How far each seed's last tasks are below its best so many tasks in a row; 0 if they are the best."""
    means: Values = sliding_window_view(values, end_window(values.shape[1]), axis=1).mean(-1)
    falls: Values = means.max(1) - means[:, -1]
    return falls


def fall_from_best(values: Values) -> float:
    """The same of the mean over seeds."""
    return float(falls_from_best(values.mean(0, keepdims=True))[0])
