"""What a set of runs will cost, from a few seconds of training."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adalin.data import Dataset
from adalin.training._any_run import AnyRun, Trial
from adalin.training._execute import engine_settings, make_stacks
from adalin.training._hardware import Hardware
from adalin.training._run import Run
from adalin.training._run_folder import RunFolder
from adalin.training._train import Streams, is_stacked, train_runs

SECONDS = 2.0
"""How long each kind of stack is tried."""


@dataclass(frozen=True)
class Plan:
    """Estimates for this machine as busy as it is now."""

    steps: int
    """Gradient steps of all runs, from their start."""
    seconds: float
    disk_bytes: int
    stacks: tuple[int, ...]
    """How many runs each stack has."""


def plan(runs: Sequence[AnyRun], dataset: Dataset | None, *, workers: int, hardware: Hardware | None = None) -> Plan:
    """Train a little of each kind of stack in a temporary folder."""
    stacks = make_stacks(runs, workers)
    seconds, disk, trials = 0.0, 0, dict[Any, Trial]()
    with engine_settings():
        for stack in stacks:
            kind = tuple(run.folder.parent for run in stack)
            if kind not in trials:
                trials[kind] = stack[0].try_out(stack, dataset, hardware)
            trial = trials[kind]
            steps = sum(run.total_steps for run in stack)
            tasks = sum(run.tasks for run in stack)
            seconds += steps * trial.seconds_per_step + tasks * trial.seconds_per_task
            disk += tasks * trial.row_bytes + len(stack) * (2 * trial.checkpoint_bytes + trial.buffer_bytes)
    busy = min(workers, len(stacks))
    total = sum(run.total_steps for run in runs)
    return Plan(total, seconds / busy, disk, tuple(len(stack) for stack in stacks))


def try_streams(stack: Sequence[Run], dataset: Dataset | None, hardware: Hardware | None) -> Trial:
    """For runs on streams."""
    # Networks that are trained one after the other take as long alone; trying all of them may take minutes.
    streams = Streams(dataset)
    stack = stack if is_stacked(stack[0], streams) else stack[:1]
    moments: list[tuple[float, int]] = []
    ended: list[AnyRun] = []
    """Those whose task ended after the last of these moments."""

    def note(event: str, run: AnyRun, details: dict[str, Any]) -> None:
        if event == "steps":
            moments.append((time.perf_counter(), details["steps"]))
            ended.clear()
        elif event == "row":
            ended.append(run)

    def train(runs: Sequence[Run], root: Path, seconds: float) -> list[RunFolder]:
        folders = [RunFolder(root / run.folder) for run in runs]
        for run, folder in zip(runs, folders, strict=True):
            folder.create_or_check(run.config(), {"tasks": run.tasks})
        deadline = time.perf_counter() + seconds
        train_runs(
            list(zip(runs, folders, strict=True)),
            streams,
            report=note,
            stop=lambda: len(moments) > 2 and time.perf_counter() > deadline,
            checkpoint_seconds=float("inf"),
            hardware=hardware,
        )
        return folders

    with tempfile.TemporaryDirectory() as root:
        # One epoch as a whole run: what ends a task costs, and how large its row is.
        epoch = [replace(run, epochs=1, steps=None, tasks=1) for run in stack]
        folders = train(epoch, Path(root, "short"), float("inf"))
        if not all((folder.path / "rows.jsonl").exists() for folder in folders):
            raise ValueError(f"{stack[0].method} diverges within an epoch: there is nothing to plan with")
        per_task = (time.perf_counter() - moments[-1][0]) / len(ended)  # a large stack is trained in parts
        row = max((folder.path / "rows.jsonl").stat().st_size for folder in folders)
        checkpoint = max(file.stat().st_size for folder in folders for file in folder.path.glob("checkpoint-*"))
        moments.clear()
        train([replace(run, tasks=1, epochs=100_000, steps=None) for run in stack], Path(root, "long"), SECONDS)
    (start, _), *rest = moments
    if not rest:
        raise ValueError(f"{stack[0].method} diverges at once: there is nothing to plan with")
    steps = sum(steps for _, steps in rest)
    return Trial((rest[-1][0] - start) / steps, per_task, row, checkpoint)
