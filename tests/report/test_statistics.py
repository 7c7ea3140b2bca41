import math

import numpy as np
import pytest
from scipy import stats

from adalin.report._statistics import (
    Interval,
    end_window,
    fall_from_best,
    mean_interval,
    plasticity,
    plasticity_slope,
    relative_change,
    t_interval,
    t_quantile,
)
from adalin.report._summary import fill_diverged


def test_an_interval_reads_shortly():
    assert str(Interval(0.12345, 0.1, 0.14)) == "0.123 [0.100, 0.140]"
    assert Interval(0.15, 0.1, 0.2, (0.1, 0.2)).with_seeds == "0.150 [0.100, 0.200] from 0.100, 0.200"


def test_an_interval_in_other_units():
    assert Interval(1.0, 0.5, 2.0, (0.8, 1.2)) / 2 == Interval(0.5, 0.25, 1.0, (0.4, 0.6))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 19, 100, 999])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_quantiles_of_t_are_scipys(freedom, level):
    assert t_quantile(freedom, level) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-9)


def test_the_interval_of_seeds_is_scipys_t_interval():
    seeds = np.array([-0.290, -0.227, -0.118])
    ours = t_interval(seeds)
    theirs = stats.t.interval(0.95, 2, seeds.mean(), stats.sem(seeds))
    assert (ours.low, ours.high) == pytest.approx(theirs)
    assert ours.seeds == (-0.290, -0.227, -0.118)


@pytest.mark.parametrize("count", [3, 10])
def test_the_interval_covers_the_mean_as_often_as_it_says_also_with_three_seeds(count):
    rng = np.random.default_rng(1)
    intervals = [t_interval(rng.normal(5, 2, count)) for _ in range(2000)]
    covered = sum(interval.low <= 5 <= interval.high for interval in intervals) / 2000
    assert covered == pytest.approx(0.95, abs=0.02)


def test_one_seed_leaves_everything_open():
    assert t_interval([0.4]) == Interval(0.4, -math.inf, math.inf, (0.4,))


def test_tasks_of_a_seed_count_as_one_number():
    tasks = np.random.default_rng(0).normal(0, 1, (3, 100))
    assert mean_interval(tasks) == t_interval(tasks.mean(1))
    assert mean_interval(np.repeat(tasks, 7, axis=1)).high == pytest.approx(mean_interval(tasks).high)


def test_how_many_seeds_would_clear_a_threshold():
    wide = t_interval([-0.290, -0.227, -0.118])
    needed = wide.seeds_to_clear(-0.05)
    half = [stats.t.ppf(0.975, n - 1) * np.std(wide.seeds, ddof=1) / np.sqrt(n) for n in (needed - 1, needed)]
    assert half[1] < abs(wide.value + 0.05) <= half[0]
    assert t_interval([-1.0, 1.0, 0.0]).seeds_to_clear(0.0) is None
    assert t_interval([0.3]).seeds_to_clear(0.0) is None
    assert t_interval([0.3, 0.3]).seeds_to_clear(0.0) == 2


@pytest.mark.parametrize(("tasks", "window"), [(1, 1), (4, 1), (8, 2), (20, 5), (400, 5)])
def test_the_window_is_five_tasks_or_a_quarter_of_few(tasks, window):
    assert end_window(tasks) == window


def test_the_slope_of_a_line_is_its_rise_between_the_windows():
    line = np.linspace(0.9, 0.1, 21)[None].repeat(3, axis=0)
    assert plasticity_slope(line).value == pytest.approx(-0.04 * 16)
    assert plasticity_slope(line, window=1).value == pytest.approx(-0.8)


def test_a_cold_start_that_all_seeds_share_widens_no_interval():
    curve = np.concatenate(([0.5], np.full(19, 0.9)))
    slope = plasticity_slope(curve + np.zeros((3, 1)))
    assert slope.high - slope.low == pytest.approx(0, abs=1e-12)


def test_the_slope_pairs_the_start_and_the_end_of_a_seed():
    levels = np.array([[0.1], [0.5], [0.9]]) + np.zeros((3, 12))
    slope = plasticity_slope(levels)
    assert (slope.low, slope.value, slope.high) == (0, 0, 0)


def test_a_diverged_run_has_accuracy_0_from_there_on():
    nan = np.nan
    values = np.array([[0.9, 0.8, nan, nan], [0.9, nan, 0.7, nan], [0.1, 0.2, 0.3, 0.4]])
    expected = [[0.9, 0.8, 0.0, 0.0], [0.9, nan, 0.7, 0.0], [0.1, 0.2, 0.3, 0.4]]
    np.testing.assert_array_equal(fill_diverged(values), expected)
    assert np.isnan(values[0, 2])


def test_a_relative_change_is_a_share_of_each_seeds_own_start():
    values = np.array([[0.9, 0.2, 0.4, 0.1] + [0.0] * 16, [0.1, 0.8, 0.3, 0.2] + [0.0] * 16])
    assert relative_change(values).seeds == (-1, -1)
    halved = relative_change(np.repeat([[0.8, 0.4]], 10, axis=1).repeat(3, axis=0))
    assert (halved.low, halved.value, halved.high) == (-0.5, -0.5, -0.5)
    assert relative_change(np.array([[2.0] + [1.0] * 19] * 2), first=1).value == -0.5


@pytest.mark.parametrize(
    ("curve", "diverged", "kept", "lost"),
    [
        (np.full(20, 0.8), 0, True, False),
        (np.linspace(0.8, 0.3, 20), 0, False, True),
        (np.full(20, 0.8), 1, False, False),
        (np.full(20, 0.0), 3, False, True),
        (np.full(20, 0.12), 0, False, False),  # never learned
        (np.linspace(0.8, 0.3, 8), 0, False, False),  # too few tasks
        (np.full(8, 0.8), 0, False, False),
    ],
)
def test_plasticity_is_kept_or_lost_or_it_is_not_known(curve, diverged, kept, lost):
    found = plasticity(np.tile(curve, (3, 1)), chance=0.1, diverged=diverged)
    assert (found.kept, found.lost) == (kept, lost)


def test_the_fall_from_the_best_tasks_in_a_row():
    assert fall_from_best(np.linspace(0, 1, 20)[None]) == 0
    assert fall_from_best(np.array([[0.5] * 5 + [0.9] * 10 + [0.7] * 5])) == pytest.approx(0.2)


def test_the_three_comparisons_are_with_the_first_the_next_and_the_best_tasks():
    curve = np.concatenate((np.full(5, 0.6), np.full(5, 0.8), np.full(5, 0.9), np.full(5, 0.7)))
    found = plasticity(np.tile(curve, (3, 1)), chance=0.1, diverged=0)
    assert [round(one.value, 6) for one in found.comparisons.values()] == [0.1, -0.1, -0.2]


@pytest.mark.parametrize(
    ("curve", "kept", "lost"),
    [
        ([0.6] * 5 + [0.8] * 5 + [0.9] * 5 + [0.7] * 5, False, True),  # two of three fall
        ([0.6] * 5 + [0.72] * 5 + [0.9] * 5 + [0.7] * 5, True, False),  # only the best is out of reach
        ([0.6] * 5 + [0.75] * 5 + [0.9] * 5 + [0.7] * 5, False, False),  # one each, one at the threshold
    ],
)
def test_two_of_the_three_comparisons_must_agree(curve, kept, lost):
    noise = np.array([[-0.004], [0.0], [0.004]]) * np.linspace(0, 1, 20)
    found = plasticity(np.array(curve) + noise, chance=0.1, diverged=0)
    assert (found.kept, found.lost) == (kept, lost)


def test_one_seed_shows_neither():
    found = plasticity(np.full((1, 20), 0.8), chance=0.1, diverged=0)
    assert (found.kept, found.lost) == (False, False)
