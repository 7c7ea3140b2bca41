"""How sure a number is that comes from a few seeds and many tasks."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""Numbers of runs, most often (seeds, tasks), NaN where a run has none."""

MARGIN = 0.05
"""Plasticity is lost if accuracy falls by five points. Windows of tasks with easier or harder classes differ by less;
severe losses are of tens of points."""
LEAST_TASKS = 10
"""Within so many tasks ReLU loses its plasticity on random labels; fewer say nothing."""
NEAR_CHANCE = 0.1
"""Above chance; a network that still learns is far beyond it on all five benchmarks."""
RESAMPLES = 2000
"""The ends of a 95 % interval then move by a few percent of its width between random states."""
FLIPS = 2**14
"""Sign flips of a permutation test: all of them up to 14 units, else so many random ones."""
BLOCKS_PER_SEED = 10


@dataclass(frozen=True)
class Interval:
    """An estimate and where it could as well be."""

    value: float
    """The estimate."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def __truediv__(self, scale: float) -> "Interval":
        assert scale > 0, "a negative number would swap the ends"
        return Interval(self.value / scale, self.low / scale, self.high / scale)


@dataclass(frozen=True)
class Plasticity:
    """What became of plasticity: `kept`, `lost`, or neither for certain."""

    change: Interval
    """Change of accuracy from the first tasks to the last."""
    end: Interval
    """Accuracy in the last tasks."""
    kept: bool
    """Whether accuracy certainly did not fall, and is still far from chance."""
    lost: bool
    """Whether accuracy certainly fell."""


def bootstrap_mean(values_per_seed: Values, level: float = 0.95) -> Interval:
    """The mean over seeds, with the percentile interval of resampled seeds.

    It knows no more than the seeds do: of three seeds it is their range, which holds the true mean in about three of
    four cases, whatever the level. From about twenty on it is nearly what it says.
    """
    values = np.asarray(values_per_seed, dtype=np.float64)
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    return _interval(float(values.mean()), values[drawn].mean(1), level)


def hierarchical_bootstrap(values: Values, level: float = 0.95) -> Interval:
    """The mean of (seeds, tasks): seeds are resampled, and in each of them blocks of consecutive tasks.

    Blocks, as a network carries what it learned from task to task; they are about tasks^(1/3) long, the rate at which
    the error of a block bootstrap is least, and run over the end into the start so that each task counts the same.
    Where seeds differ more than tasks do, three of them say as little as in `bootstrap_mean`.
    """
    rng = np.random.default_rng(0)
    block = max(1, round(values.shape[1] ** (1 / 3)))
    return _interval(float(values.mean()), _resampled_means(values, _draw_seeds(values, rng), block, rng), level)


def end_window(tasks: int) -> int:
    """How many tasks at either end of a run stand for its start and its end."""
    return max(1, min(5, tasks // 4))


def plasticity_slope(values: Values, window: int | None = None, level: float = 0.95) -> Interval:
    """Mean of the last `window` tasks minus that of the first, over (seeds, tasks); below 0, plasticity was lost.

    Seeds, and tasks in both windows, are resampled. What rises first and falls back to where it began has lost nothing
    by this measure. Of runs that diverged it needs the `Summary.scores`.
    """
    ends = _ends(values, window)
    return _interval(ends.last - ends.first, ends.last_draws - ends.first_draws, level)


def relative_change(values: Values, window: int | None = None, level: float = 0.95) -> Interval:
    """The same as a share of what it was in the first tasks, for metrics that are positive."""
    ends = _ends(values, window)
    return _interval(ends.last / ends.first - 1, ends.last_draws / ends.first_draws - 1, level)


def plasticity(accuracy: Values, *, chance: float, diverged: int) -> Plasticity:
    """Whether (seeds, tasks) of online accuracy show that plasticity was kept or lost; `diverged` of the seeds did."""
    change = plasticity_slope(accuracy)
    end = hierarchical_bootstrap(accuracy[:, -end_window(accuracy.shape[1]) :])
    enough = accuracy.shape[1] >= LEAST_TASKS
    # A run that diverges in the first task is as bad at the end as at the start, and one that never learned too.
    kept = enough and change.low > -MARGIN and not diverged and end.low > chance + NEAR_CHANCE
    lost = enough and (change.high < -MARGIN or diverged >= len(accuracy))
    return Plasticity(change, end, kept, lost)


def fall_from_best(values: Values) -> float:
    """How far the mean of the last tasks is below that of the best so many tasks in a row; 0 if they are the best."""
    window = end_window(values.shape[1])
    means = sliding_window_view(values.mean(0), window).mean(-1)
    return float(means.max() - means[-1])


def paired_test(a: Values, b: Values) -> float:
    """Two-sided p of the mean difference of two (seeds, tasks), seeds paired, by flipping signs.

    What is flipped is a seed's block of consecutive tasks, ten blocks per seed at most. Whole seeds would be safest,
    but three of them cannot give a p below 0.25; single tasks hang together. So this p is about the tasks of these
    seeds: it does not say how other seeds would come out.
    """
    differences = a - b
    blocks = np.array_split(differences, min(BLOCKS_PER_SEED, differences.shape[1]), axis=1)
    units = np.concatenate([block.sum(1) for block in blocks])
    exact = 2 ** len(units) <= FLIPS
    if exact:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(units))))
    else:
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(FLIPS, len(units)))
    # The data as they are must count among those as extreme, also after rounding.
    extreme = int((np.abs(signs @ units) >= abs(units.sum()) * (1 - 1e-9)).sum())
    return extreme / len(signs) if exact else (extreme + 1) / (len(signs) + 1)


@dataclass(frozen=True, eq=False)
class _Ends:
    first: float
    """Mean of the first tasks."""
    last: float
    """Mean of the last tasks."""
    first_draws: Values
    """Means of the first tasks over resampled seeds and tasks."""
    last_draws: Values
    """Means of the last tasks over the same seeds."""


def _ends(values: Values, window: int | None) -> _Ends:
    window = end_window(values.shape[1]) if window is None else window
    first, last = values[:, :window], values[:, -window:]
    rng = np.random.default_rng(0)
    seeds = _draw_seeds(values, rng)
    last_draws = _resampled_means(last, seeds, 1, rng)
    first_draws = _resampled_means(first, seeds, 1, rng)
    return _Ends(float(first.mean()), float(last.mean()), first_draws, last_draws)


def _draw_seeds(values: Values, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(len(values), size=(RESAMPLES, len(values), 1))


def _resampled_means(values: Values, seeds: NDArray[np.int64], block: int, rng: np.random.Generator) -> Values:
    """One mean per draw of seeds, over as many random blocks in each as make up its tasks."""
    tasks = values.shape[1]
    around = np.concatenate((values, values[:, : block - 1]), axis=1)
    block_means: Values = sliding_window_view(around, block, axis=1).mean(-1)
    blocks = math.ceil(tasks / block)
    starts = rng.integers(tasks, size=(*seeds.shape[:2], blocks))
    means: Values = block_means[seeds, starts].mean((1, 2))
    return means


def _interval(value: float, draws: Values, level: float) -> Interval:
    low, high = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2))
    return Interval(value, float(low), float(high))
