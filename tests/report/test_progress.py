"""What a person sees while runs are trained."""

import io
import re
from typing import Any

from rich.console import Console

from adalin.executors import define
from adalin.report import RunProgress
from adalin.runs import Ended, Position, Progress, Resumed, Row, Run, kind_of

HOPPER = "sac-Hopper-v4"


def _train(progress: RunProgress, runs: list[Run[Any]], task: int) -> None:
    for run in runs:
        progress.note(Progress(run, run.steps_of(task + 1) - run.steps_of(task)))
        progress.note(Row(run, {"task": task, "online_accuracy": 0.5}))


def test_runs_that_diverge_are_neither_waited_for_nor_counted_as_work() -> None:
    text = io.StringIO()
    runs = define("permuted-mnist", ["adalin"], seeds=(3, 4), data="bundled", tasks=10).runs
    progress = RunProgress(runs, Console(file=text, width=100))
    _train(progress, runs, task=0)
    progress.note(Ended(runs[0], Position(1, 0, "diverged")))
    for task in range(1, 10):
        _train(progress, runs[1:], task)
    lines = text.getvalue().splitlines()
    assert [int(match[1]) for line in lines if (match := re.match(r"task +(\d+)", line))] == [1, *range(1, 11)]
    assert "adalin with seed 3 diverged in task 2, step 0: outputs are not finite" in lines
    assert lines[-1].endswith("about 0 s left")


def test_a_run_that_goes_on_is_not_counted_from_its_start() -> None:
    text = io.StringIO()
    runs = define("permuted-mnist", ["adalin"], seeds=(3,), data="bundled", tasks=10).runs
    progress = RunProgress(runs, Console(file=text, width=100))
    progress.note(Resumed(runs[0], runs[0].steps_of(9)))
    _train(progress, runs, task=9)
    assert text.getvalue().splitlines()[-1].endswith("about 0 s left")


def test_a_seed_does_not_wait_for_the_last() -> None:
    text = io.StringIO()
    runs = [kind_of(HOPPER).example(HOPPER, "adalin", seed, steps=10_000) for seed in (3, 4)]
    progress = RunProgress(runs, Console(file=text, width=100))
    for task in range(2):
        progress.note(Row(runs[0], {"task": task, "episode_return": 100.0 * (task + 1)}))
    assert text.getvalue().splitlines() == [
        "period   1  adalin, seed 3    episode return 100",
        "period   2  adalin, seed 3    episode return 200",
    ]
