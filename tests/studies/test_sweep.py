"""Hyper-parameters are chosen on seeds 0-2, all of the grid or nothing."""

from itertools import product

import pytest
from rich.console import Console

from adalin.studies import choose, report_runs, sweep_runs, sweep_table
from made_results import with_accuracies

LRS, SIZES = (0.1, 0.01), (16, 32)
MNIST = "random-label-mnist"


def point(lr, batch_size, *accuracies, method="baseline", tasks=2, state="running", seeds=(0, 1, 2)):
    """A point of the grid, with these accuracies of every seed."""
    settings = {"lr": lr, "batch_size": batch_size, "tasks": tasks, "state": state}
    return [with_accuracies(accuracies, method, seed, **settings) for seed in seeds]


def grid(**changed):
    """Every point, as good as its number; those named a, b, c, d otherwise."""
    points = {}
    for name, (lr, size), accuracy in zip("abcd", product(LRS, SIZES), (0.2, 0.5, 0.4, 0.3), strict=True):
        points[name] = changed.get(name, point(lr, size, accuracy, accuracy))
    return [result for members in points.values() for result in members]


def choice_of(results):
    (choice,) = choose([result.run for result in results], results)
    return choice


def text_of(*choices):
    console = Console(width=120)
    with console.capture() as text:
        console.print(sweep_table(choices))
    return [" ".join(line.split()) for line in text.get().splitlines()]


def test_the_best_total_online_accuracy_is_chosen():
    assert choice_of(grid()).settings == {"lr": 0.1, "batch_size": 32}
    at_the_end = point(0.01, 32, 0.0, 0.9)  # 0.45 over all tasks
    assert choice_of(grid(d=at_the_end)).settings == {"lr": 0.1, "batch_size": 32}
    one_good_seed = point(0.01, 32, 1.0, 1.0, seeds=[0]) + point(0.01, 32, 0.2, 0.2, seeds=[1, 2])  # 0.467
    assert choice_of(grid(d=one_good_seed)).settings == {"lr": 0.1, "batch_size": 32}
    best = point(0.01, 32, 0.51, 0.51)
    assert choice_of(grid(d=best)).settings == {"lr": 0.01, "batch_size": 32}


def test_a_diverged_run_learned_nothing_from_there_on():
    early = point(0.1, 16, 0.9, state="diverged")  # 0.9 and 0: 0.45
    choice = choice_of(grid(a=early))
    assert choice.settings == {"lr": 0.1, "batch_size": 32}
    assert choice.points[0].score == pytest.approx(0.45)
    assert choice.points[0].summary.diverged == 3
    mixed = point(0.1, 16, 0.9, 0.9, seeds=[0, 1]) + point(0.1, 16, state="diverged", seeds=[2])  # two thirds of 0.9
    choice = choice_of(grid(a=mixed))
    assert choice.points[0].score == pytest.approx(0.6)
    assert choice.settings == {"lr": 0.1, "batch_size": 16}
    lines = text_of(choice)
    assert "baseline 0.1 16 0.600 1 of 3 chosen" in lines
    assert "baseline 0.1 32 0.500" in lines


def test_a_grid_that_diverged_everywhere_still_has_a_choice():
    results = [result for lr, size in product(LRS, SIZES) for result in point(lr, size, state="diverged")]
    choice = choice_of(results)
    assert [point.score for point in choice.points] == [0.0] * 4
    assert choice.settings == {"lr": 0.1, "batch_size": 16}


def test_nothing_is_chosen_before_the_whole_grid_is_there():
    unfinished = point(0.01, 32, 0.3, 0.3, seeds=[0, 1]) + point(0.01, 32, 0.3, seeds=[2])
    choice = choice_of(grid(d=unfinished))
    assert choice.best is None
    assert [point.score is None for point in choice.points] == [False, False, False, True]
    assert "baseline 0.01 32 not finished" in text_of(choice)
    assert not any("chosen" in line for line in text_of(choice))


@pytest.mark.parametrize("missing", [slice(9, 12), slice(11, 12), slice(0, 1)])
def test_a_point_or_seed_that_was_not_begun_leaves_the_choice_open(missing):
    results = grid()
    runs = [result.run for result in results]
    del results[missing]
    (choice,) = choose(runs, results)
    assert choice.best is None
    assert len(choice.points) == 4


def test_one_method_can_be_chosen_for_while_another_is_not_finished():
    results = [*grid(), *point(0.1, 16, 0.3, method="adalin")]
    done, open_ = choose([result.run for result in results], results)
    assert (done.method, open_.method) == ("baseline", "adalin")
    assert done.best is not None
    assert open_.best is None


def test_seeds_for_reporting_must_not_choose():
    for seeds in ([3], [0, 1, 2, 5]):
        results = grid(d=point(0.01, 32, 0.3, 0.3, seeds=seeds))
        with pytest.raises(ValueError, match=rf"seeds \[{seeds[-1]}\] are for reporting"):
            choose([result.run for result in results], results)
    results = grid()
    with pytest.raises(ValueError, match=r"seeds \[4\] are for reporting"):
        choose([result.run for result in results], [*results, *point(0.1, 16, 0.9, 0.9, seeds=[4])])


def test_of_equals_the_first_of_the_grid_is_chosen():
    results = [result for lr, size in product(LRS, SIZES) for result in point(lr, size, 0.5, 0.5)]
    runs = [result.run for result in results]
    for order in (results, results[::-1]):  # whatever order results are read in
        (choice,) = choose(runs, order)
        assert choice.settings == {"lr": 0.1, "batch_size": 16}


def test_the_table_says_what_the_paper_chose():
    lines = text_of(choice_of(grid()))
    assert "baseline 0.1 32 0.500 chosen" in lines
    assert "baseline 0.01 16 0.400 the paper's" in lines
    settings = {"method": "fourier", "seeds": [0, 1, 2]}
    cifar = [
        with_accuracies([0.5], "fourier", seed, benchmark="random-label-cifar10", lr=1e-3, batch_size=32)
        for seed in settings["seeds"]
    ]
    assert "fourier 0.001 32 0.500 chosen, the paper's" in text_of(choice_of(cifar))


def test_what_was_chosen_is_reported_on_other_seeds():
    choices = [choice_of(grid()), choice_of(point(0.01, 16, 0.4, 0.4, method="adalin"))]
    runs = report_runs(MNIST, choices, data="bundled", tasks=7, lr=9.0, images=64)
    assert [(run.method, run.settings.lr, run.settings.batch_size, run.seed) for run in runs] == [
        *(("baseline", 0.1, 32, seed) for seed in (3, 4, 5)),
        *(("adalin", 0.01, 16, seed) for seed in (3, 4, 5)),
    ]
    assert {(run.tasks, run.settings.images) for run in runs} == {(7, 64)}


def test_the_grid_is_every_method_lr_and_batch_size_on_three_seeds():
    runs = sweep_runs(MNIST, ["baseline", "adalin"], LRS, SIZES, data="bundled", tasks=1, images=64)
    assert len(runs) == len({run.folder for run in runs}) == 2 * 4 * 3
    points = {(run.method, run.settings.lr, run.settings.batch_size, run.seed) for run in runs}
    assert points == set(product(("baseline", "adalin"), LRS, SIZES, (0, 1, 2)))
    assert {run.tasks for run in runs} == {1}


@pytest.mark.parametrize(
    ("lrs", "sizes", "message"),
    [
        ([], [16], "give each lr once, and at least one; got none"),
        ([0.1, 0.1], [16], "give each lr once, and at least one; got 0.1, 0.1"),
        ([0.1], [16, 32, 16], "give each batch-size once, and at least one; got 16, 32, 16"),
    ],
)
def test_a_grid_with_a_value_twice_or_none_is_refused(lrs, sizes, message):
    with pytest.raises(ValueError, match=message):
        sweep_runs(MNIST, ["baseline"], lrs, sizes, data="bundled")
