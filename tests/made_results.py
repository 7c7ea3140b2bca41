"""Results that nobody trained: with the rows a test needs, and a manifest as training writes it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adalin.training import Result, Run

DATA = "ab" * 32
COMMIT = "8d15a50e33e651481a56846ff72bd5fc8bd7aa82"


def result_of(
    run: Run,
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
    return Result(run, rows, {"task": len(rows), "step": 7, "state": state}, manifest, core_seconds)


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
    run = replace(Run.define(benchmark, method, seed, None, tasks=tasks, **settings), data=DATA)
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
    run = Run.define(benchmark, method, seed, None, tasks=tasks or len(accuracies), **settings)
    rows = [{"task": task, "online_accuracy": accuracy} for task, accuracy in enumerate(accuracies)]
    return result_of(replace(run, data=DATA), rows, state=state)
