from itertools import product

import numpy as np
import pytest
from scipy import stats

from adalin.report._statistics import (
    Interval,
    bootstrap_mean,
    end_window,
    fall_from_best,
    hierarchical_bootstrap,
    paired_test,
    plasticity,
    plasticity_slope,
    relative_change,
)
from adalin.report._summary import fill_diverged


def coverage(interval_of, draw, truth, trials=200):
    rng = np.random.default_rng(1)
    intervals = [interval_of(draw(rng)) for _ in range(trials)]
    return sum(interval.low <= truth <= interval.high for interval in intervals) / trials


def autocorrelated(rng, seeds=3, tasks=100, rho=0.7):
    """AR(1) around 0: tasks hang together, seeds do not differ."""
    values = rng.standard_normal((seeds, tasks))
    for task in range(1, tasks):
        values[:, task] += rho * values[:, task - 1]
    return values


def test_an_interval_reads_shortly():
    assert str(Interval(0.12345, 0.1, 0.14)) == "0.123 [0.100, 0.140]"


def test_an_interval_in_other_units():
    assert Interval(1.0, 0.5, 2.0) / 2 == Interval(0.5, 0.25, 1.0)


def test_the_interval_of_three_seeds_is_their_range_and_covers_what_its_docstring_says():
    assert bootstrap_mean(np.array([0.1, 0.4, 0.2])) == Interval(*map(pytest.approx, (7 / 30, 0.1, 0.4)))
    assert coverage(bootstrap_mean, lambda rng: rng.normal(5, 2, 3), 5) == pytest.approx(0.75, abs=0.08)


def test_the_interval_of_many_seeds_covers_the_mean_and_agrees_with_scipy():
    assert 0.88 <= coverage(bootstrap_mean, lambda rng: rng.exponential(2, 30), 2) <= 0.98
    values = np.random.default_rng(2).exponential(2, 30)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", rng=3).confidence_interval
    ours = bootstrap_mean(values)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.06)


def test_a_higher_level_gives_a_wider_interval():
    values = np.random.default_rng(2).normal(size=20)
    narrow, wide = bootstrap_mean(values, 0.5), bootstrap_mean(values, 0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_blocks_of_tasks_cover_the_mean_of_autocorrelated_tasks_where_single_tasks_do_not():
    assert coverage(hierarchical_bootstrap, autocorrelated, 0, trials=100) >= 0.85

    def single(values):
        return bootstrap_mean(values.ravel())

    assert coverage(single, autocorrelated, 0, trials=50) <= 0.7


def test_seeds_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (3, 100))
    alike, apart = hierarchical_bootstrap(noise), hierarchical_bootstrap(noise + np.array([[0.0], [0.3], [0.6]]))
    assert alike.high - alike.low < 0.01
    assert apart.high - apart.low > 0.4


def test_the_same_data_give_the_same_interval():
    values = np.random.default_rng(0).normal(size=(3, 400))
    assert hierarchical_bootstrap(values) == hierarchical_bootstrap(values)


@pytest.mark.parametrize(("tasks", "window"), [(1, 1), (4, 1), (8, 2), (20, 5), (400, 5)])
def test_the_window_is_five_tasks_or_a_quarter_of_few(tasks, window):
    assert end_window(tasks) == window


def test_the_slope_of_a_line_is_its_rise_between_the_windows():
    line = np.linspace(0.9, 0.1, 21)[None].repeat(3, axis=0)
    slope = plasticity_slope(line)
    assert slope.value == pytest.approx(-0.04 * 16)
    # Within the windows tasks differ by 0.16, all seeds are alike: the interval lies inside what tasks could give.
    assert -0.8 < slope.low < slope.value < slope.high < -0.48
    assert plasticity_slope(line, window=1) == Interval(*(pytest.approx(-0.8),) * 3)


def test_the_slope_pairs_the_start_and_the_end_of_a_seed():
    levels = np.array([[0.1], [0.5], [0.9]]) + np.zeros((3, 12))
    assert plasticity_slope(levels) == Interval(*(pytest.approx(0.0),) * 3)


def test_the_slopes_interval_covers_the_true_change():
    change = np.where(np.arange(40) < 20, 0.0, -0.3)

    def draw(rng):
        return change + rng.normal(0, 0.1, (10, 40))

    assert coverage(plasticity_slope, draw, -0.3) >= 0.9


def test_a_diverged_run_has_accuracy_0_from_there_on():
    nan = np.nan
    values = np.array([[0.9, 0.8, nan, nan], [0.9, nan, 0.7, nan], [0.1, 0.2, 0.3, 0.4]])
    expected = [[0.9, 0.8, 0.0, 0.0], [0.9, nan, 0.7, 0.0], [0.1, 0.2, 0.3, 0.4]]
    np.testing.assert_array_equal(fill_diverged(values), expected)
    assert np.isnan(values[0, 2])


def test_the_paired_test_is_exact_for_few_units():
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.3, 1, (2, 5)), rng.normal(0, 1, (2, 5))
    units = (a - b).ravel()
    flipped = [abs(np.dot(signs, units)) for signs in product((-1, 1), repeat=10)]
    exact = np.mean([value >= abs(units.sum()) - 1e-9 for value in flipped])
    assert paired_test(a, b) == exact
    theirs = stats.permutation_test((units,), np.sum, permutation_type="samples", vectorized=True)
    assert paired_test(a, b) == pytest.approx(theirs.pvalue)


def test_the_paired_test_of_many_units_agrees_with_the_t_test():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.3, 1, (3, 100)), rng.normal(0.1, 1, (3, 100))
    units = (a - b).reshape(30, 10).sum(1)
    assert paired_test(a, b) == pytest.approx(stats.ttest_1samp(units, 0).pvalue, abs=0.02)


def test_the_paired_test_finds_a_clear_lead_and_none_in_noise():
    rng = np.random.default_rng(6)
    a = rng.normal(0, 0.1, (3, 100))
    assert paired_test(a + 0.2, a + rng.normal(0, 0.1, a.shape)) < 0.001
    assert paired_test(a, a) == 1.0
    tests = [paired_test(rng.normal(size=(2, 6)), rng.normal(size=(2, 6))) for _ in range(200)]
    assert np.mean(np.array(tests) < 0.1) == pytest.approx(0.1, abs=0.06)


def test_a_relative_change_of_what_cannot_be_negative_is_never_below_minus_one():
    values = np.array([[0.9, 0.2, 0.4, 0.1] + [0.0] * 16, [0.1, 0.8, 0.3, 0.2] + [0.0] * 16])
    assert relative_change(values) == Interval(-1, -1, -1)
    halved = relative_change(np.repeat([[0.8, 0.4]], 10, axis=1).repeat(3, axis=0))
    assert halved == Interval(-0.5, -0.5, -0.5)


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
