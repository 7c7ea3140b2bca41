"""Methods over seeds: which numbers count, and what settings are called."""

import numpy as np
import pytest

from adalin.report import by_benchmark, mean_and_deviation, summarise
from made_results import make_result, result_of, with_accuracies

NAN = np.nan


def test_a_summary_has_the_tasks_that_all_seeds_going_on_have_finished():
    finished, behind = with_accuracies([0.1, 0.2, 0.3]), with_accuracies([0.4, 0.5], seed=4, tasks=3)
    (summary,) = summarise([finished, behind])
    assert (summary.seeds, summary.tasks) == ([3, 4], 2)
    np.testing.assert_array_equal(summary.values(), [[0.1, 0.2], [0.4, 0.5]])


def test_a_diverged_seed_has_no_numbers_from_there_on_and_does_not_shorten_the_others():
    whole = with_accuracies([0.1, 0.2, 0.3])
    diverged = with_accuracies([0.4], seed=4, tasks=3, state="diverged")
    at_once = with_accuracies([], seed=5, tasks=3, state="diverged")
    (summary,) = summarise([whole, diverged, at_once])
    assert summary.tasks == 3
    np.testing.assert_array_equal(summary.values(), [[0.1, 0.2, 0.3], [0.4, NAN, NAN], [NAN] * 3])
    np.testing.assert_array_equal(summary.scores(), [[0.1, 0.2, 0.3], [0.4, 0, 0], [0] * 3])
    assert summary.total() == pytest.approx([0.2, 0.4 / 3, 0])
    assert summary.total("dormant").shape == (0,), "only accuracies are 0"


def test_if_all_seeds_diverged_all_tasks_count_that_were_asked_for():
    first = with_accuracies([0.4], tasks=3, state="diverged")
    second = with_accuracies([0.1, 0.2], seed=4, tasks=3, state="diverged")
    at_once = with_accuracies([], seed=5, tasks=3, state="diverged")
    (summary,) = summarise([first, second, at_once])
    assert summary.tasks == 3
    np.testing.assert_array_equal(summary.values(), [[0.4, NAN, NAN], [0.1, 0.2, NAN], [NAN] * 3])
    assert summary.total() == pytest.approx([0.4 / 3, 0.1, 0])
    (alone,) = summarise([at_once])
    assert alone.total() == 0
    assert alone.total("test_accuracy").shape == (0,), "which it does not measure"


def test_runs_without_a_finished_task_have_empty_values():
    (summary,) = summarise([with_accuracies([], seed=seed, tasks=3, state="running") for seed in (3, 4)])
    assert summary.tasks == 0
    assert summary.values().shape == (2, 0)
    assert summary.total().shape == (0,)
    assert not summary.has("online_accuracy")


def test_a_metric_counts_where_it_has_a_number():
    (summary,) = summarise([with_accuracies([None, 0.2, 0.4]), with_accuracies([0.1, 0.2, None], seed=4)])
    np.testing.assert_array_equal(summary.values(), [[NAN, 0.2, 0.4], [0.1, 0.2, NAN]])
    assert summary.total() == pytest.approx([0.3, 0.15]), "also that of a seed which ended no episode in the last"
    (adalin,) = summarise([make_result("adalin")])
    assert adalin.has("srank")
    for metric in ("alpha", "test_accuracy", "no_such_metric"):
        assert not adalin.has(metric)


def test_mean_and_deviation_are_numpys_over_the_seeds_that_have_a_number():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 40))
    values[rng.random(values.shape) < 0.3] = NAN
    values[:, 7] = NAN
    values[1:, 8] = NAN
    values[0, 8] = 0.25
    mean, deviation = mean_and_deviation(values)
    for task, column in enumerate(values.T):
        there = column[np.isfinite(column)]
        assert mean[task] == pytest.approx(there.mean() if len(there) else NAN, nan_ok=True)
        expected = there.std(ddof=1) if len(there) > 1 else 0.0 if len(there) else NAN
        assert deviation[task] == pytest.approx(expected, nan_ok=True)
    assert np.isnan(mean[7])
    assert np.isnan(deviation[7])
    assert (mean[8], deviation[8]) == (0.25, 0.0)


def test_mean_and_deviation_of_nothing_are_empty():
    mean, deviation = mean_and_deviation(np.empty((3, 0)))
    assert mean.shape == deviation.shape == (0,)


def test_settings_of_one_method_are_named_by_what_differs():
    runs = [
        with_accuracies([0.1], "adalin"),
        with_accuracies([0.1], "adalin", seed=4),
        with_accuracies([0.1], "fourier", lr=1e-3, batch_size=32),
        with_accuracies([0.1], "fourier"),
        with_accuracies([0.1], "baseline", inputs="kumar2023"),
    ]
    summaries = summarise(runs)
    assert [(one.label, one.seeds) for one in summaries] == [
        ("adalin", [3, 4]),
        ("fourier batch_size=32 lr=0.001", [3]),
        ("fourier batch_size=16 lr=0.01", [3]),
        ("baseline", [3]),
    ]
    assert "seed" not in summaries[0].config


def test_more_tasks_are_not_another_setting():
    (summary,) = summarise([with_accuracies([0.1, 0.2]), with_accuracies([0.1], seed=4, tasks=9)])
    assert summary.tasks == 1


def test_benchmarks_and_data_are_kept_apart():
    runs = [make_result(), make_result(benchmark="permuted-mnist"), make_result("adalin"), make_result(source="other")]
    places = by_benchmark(runs)
    assert {place: [one.label for one in members] for place, members in places.items()} == {
        ("random-label-mnist-v1", "MNIST"): ["baseline", "adalin"],
        ("permuted-mnist-v1", "MNIST"): ["baseline"],
        ("random-label-mnist-v1", "other"): ["baseline"],
    }


def test_seeds_that_choose_are_not_pooled_with_those_that_are_reported():
    results = [with_accuracies([0.1 * seed], seed=seed) for seed in (0, 3, 1, 4)]
    reported, choosing = summarise(results, choosing=(0, 1, 2))
    assert (reported.label, reported.seeds) == ("baseline", [3, 4])
    assert (choosing.label, choosing.seeds) == ("baseline (seeds 0, 1)", [0, 1])
    (alone,) = summarise([results[0], results[2]], choosing=(0, 1, 2))
    assert (alone.label, alone.seeds) == ("baseline", [0, 1])
    (pooled,) = summarise(results)
    assert pooled.seeds == [0, 3, 1, 4], "no seed chooses unless somebody says so"


def test_methods_with_a_style_of_their_own_come_first_then_others():
    runs = [make_result(method) for method in ("adalin+l2", "adalin-gelu", "baseline", "adalin", "crelu")]
    (found,) = by_benchmark(runs).values()
    assert [summary.label for summary in found] == ["baseline", "adalin", "crelu", "adalin-gelu", "adalin+l2"]


def test_only_metrics_that_are_accuracies_are_0_after_a_run_diverged():
    run = with_accuracies([0.4], tasks=3).run
    rows = [{"task": 0, "online_accuracy": 0.4, "inaccuracy": 0.6, "test_accuracy": 0.5}]
    (summary,) = summarise([result_of(run, rows, state="diverged")])
    for metric in ("online_accuracy", "test_accuracy"):
        assert (summary.scores(metric)[0, 1:] == 0).all()
    assert np.isnan(summary.scores("inaccuracy")[0, 1:]).all(), "whatever its name ends in"
