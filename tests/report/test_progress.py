"""What a person sees while runs are trained."""

import io
import re

from rich.console import Console

from adalin.report import RunProgress
from adalin.rl import SACRun
from adalin.training import Run, define_runs


def _train(progress: RunProgress, runs: list[Run], task: int) -> None:
    for run in runs:
        progress.report("steps", run, {"steps": run.steps_of(task + 1) - run.steps_of(task)})
        progress.report("row", run, {"task": task, "online_accuracy": 0.5})


def test_runs_that_diverge_are_neither_waited_for_nor_counted_as_work() -> None:
    text = io.StringIO()
    runs, _ = define_runs("permuted-mnist", ["adalin"], seeds=(3, 4), tasks=10)
    progress = RunProgress(runs, Console(file=text, width=100))
    _train(progress, runs, task=0)
    progress.report("diverged", runs[0], {"task": 1, "step": 0})
    for task in range(1, 10):
        _train(progress, runs[1:], task)
    lines = text.getvalue().splitlines()
    assert [int(match[1]) for line in lines if (match := re.match(r"task +(\d+)", line))] == list(range(1, 11))
    assert "adalin with seed 3 diverged in task 2, step 0: outputs are not finite" in lines
    assert lines[-1].endswith("about 0 s left")


def test_a_run_that_goes_on_is_not_counted_from_its_start() -> None:
    text = io.StringIO()
    runs, _ = define_runs("permuted-mnist", ["adalin"], seeds=(3,), tasks=10)
    progress = RunProgress(runs, Console(file=text, width=100))
    progress.report("resumed", runs[0], {"steps": runs[0].steps_of(9)})
    _train(progress, runs, task=9)
    assert text.getvalue().splitlines()[-1].endswith("about 0 s left")


def test_seeds_that_are_trained_one_by_one_do_not_wait_for_the_last() -> None:
    text = io.StringIO()
    runs = [SACRun(benchmark="sac-Hopper-v4", method="adalin", seed=seed, tasks=2) for seed in (3, 4)]
    progress = RunProgress(runs, Console(file=text, width=100))
    for task in range(2):
        progress.report("row", runs[0], {"task": task, "episode_return": 100.0 * (task + 1)})
    assert text.getvalue().splitlines() == [
        "period   1  adalin, seed 3    episode return 100",
        "period   2  adalin, seed 3    episode return 200",
    ]
