"""Results that nobody trained: with the rows a test needs, and a manifest as training writes it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import adalin.executors  # noqa: F401, which knows the kinds of runs
from adalin.runs import Position, Result, Run, kind_of

DATA = "ab" * 32
COMMIT = "8d15a50e33e651481a56846ff72bd5fc8bd7aa82"


def define(benchmark: str, method: str, seed: int, *, data: str | None = DATA, **settings: Any) -> Run[Any]:
    """A run with the benchmark's own settings where none are given, by default on data that nobody has."""
    return kind_of(benchmark).example(benchmark, method, seed, **settings).with_settings(data=data)


def result_of(
    run: Run[Any],
    rows: list[dict[str, Any]],
    *,
    state: str = "running",
    source: str = "MNIST",
    commit: str | None = COMMIT,
    core_seconds: float = 0.0,
) -> Result:
    """What has come of a run: these rows, and then a step or two."""
    manifest = {
        "tasks": run.tasks,
        "data": {"source": source, "sha256": DATA},
        "protocol": {"order": "shuffled anew in each epoch"},
        "versions": {"python": "3.11", "adalin": None, "torch": "2.10"},
        "commit": commit,
        "machine": {"cpu": "a processor", "cores": 2, "system": "Linux", "threads": 1},
    }
    return Result(run, rows, Position(len(rows), 7, state), manifest, core_seconds)


def make_result(
    method: str = "baseline",
    seed: int = 3,
    *,
    benchmark: str = "random-label-mnist",
    source: str = "MNIST",
    tasks: int = 12,
    rows: int | None = None,
    state: str = "running",
    end: float = 0.6,
    commit: str | None = COMMIT,
    **settings: Any,
) -> Result:
    """A run whose accuracy goes from 0.6 to `end`."""
    run = define(benchmark, method, seed, tasks=tasks, **settings)
    rng = np.random.default_rng(seed)
    count = tasks if rows is None else rows
    alpha = rng.normal(size=(2, 6))
    table: list[dict[str, Any]] = []
    for task in range(count):
        accuracy = 0.6 + (end - 0.6) * task / max(1, tasks - 1) + rng.normal(0, 0.003)
        table.append(
            {
                "task": task,
                "online_accuracy": accuracy,
                "test_accuracy": None,
                "srank": 10 + task,
                "weight_srank": [1.0, 2.0],
                "alpha": (alpha * task).tolist() if "adalin" in method else None,
                "saturation": [rng.uniform(size=6).tolist(), None],
            }
        )
    return result_of(run, table, state=state, source=source, commit=commit)


def with_accuracies(
    accuracies: Sequence[float | None],
    method: str = "baseline",
    seed: int = 3,
    *,
    benchmark: str = "random-label-mnist",
    tasks: int | None = None,
    state: str = "running",
    **settings: Any,
) -> Result:
    """A run with these online accuracies, of as many tasks unless there should be more."""
    run = define(benchmark, method, seed, tasks=tasks or len(accuracies), **settings)
    rows = [{"task": task, "online_accuracy": accuracy} for task, accuracy in enumerate(accuracies)]
    return result_of(run, rows, state=state)
