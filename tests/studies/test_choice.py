"""The guide to choosing: what its tables say of made-up runs."""

import numpy as np
import pytest

from adalin.report import Summary
from adalin.streams import get_benchmark
from adalin.studies._choice import SHAPES, WHAT_CHANGES, candidates, choice_tables, count_parameters
from adalin.studies._evidence import PaperRuns
from adalin.studies._paper import MAIN_BENCHMARKS
from made_results import define, result_of


def made(benchmark, method, accuracy, *, seeds=(3, 4, 5), tasks=None):
    results = []
    for seed in seeds:
        run = define(benchmark, method, seed, **({} if tasks is None else {"tasks": tasks}))
        rows = [{"task": task, "online_accuracy": accuracy + seed * 1e-4} for task in range(run.tasks)]
        results.append(result_of(run, rows))
    return Summary(method, results)


SPLIT = "class-split-cifar100"


def world():
    accuracies = {"baseline": 0.5, "adalin": 0.7, "crelu": 0.8, "crelu:match=params": 0.6, "shrink-perturb": 0.75}
    return [made(SPLIT, method, accuracy) for method, accuracy in accuracies.items()]


def test_the_best_is_named_with_its_weights_and_the_best_of_those_that_have_no_more():
    (_, (row,)), (_, methods) = choice_tables(world())
    assert row[:3] == [WHAT_CHANGES[SPLIT], SPLIT, "CReLU, 0.800"]
    assert row[3] == "78,196 (+96.5%)"
    assert row[4].startswith("+0.100 [")
    assert row[5] == "AdaLin (ReLU), 0.700"
    assert row[7].startswith("+0.200 [")
    assert [line[1] for line in methods] == ["0.800", "0.750", "0.700", "0.600", "0.500"]
    assert methods[-1][3] == "-"


def test_methods_without_all_tasks_or_with_one_seed_are_left_out():
    entries = [*world(), made(SPLIT, "linear", 0.9, seeds=(3,)), made("permuted-mnist", "adalin", 0.9, tasks=20)]
    runs = PaperRuns(entries)
    assert "linear" not in [one.method for one in candidates(runs, SPLIT)]
    assert candidates(runs, "permuted-mnist") == []


def test_a_lead_is_over_seeds_that_both_have():
    entries = [made(SPLIT, "baseline", 0.5, seeds=(3, 4, 5)), made(SPLIT, "adalin", 0.7, seeds=(4, 5, 6))]
    first, second = candidates(PaperRuns(entries), SPLIT)
    assert len(first.lead(second).seeds) == 2
    assert first.lead(second).value == pytest.approx(0.2)


@pytest.mark.parametrize("benchmark", MAIN_BENCHMARKS)
def test_networks_are_those_of_the_papers_sizes(benchmark):
    expected = {"mnist": 89_610, "cifar10": 318_410, "cifar100": 39_796}
    dataset = get_benchmark(benchmark).dataset
    assert dataset in SHAPES
    assert count_parameters(benchmark, "baseline") == expected[dataset]
    half = count_parameters(benchmark, "crelu:match=half")
    assert half < expected[dataset] * 1.01
    assert np.isclose(count_parameters(benchmark, "crelu:match=params"), expected[dataset], rtol=0.02)
