"""What a set of runs will cost, from a few seconds of training."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adalin._hardware import Hardware
from adalin.executors._pool import engine_settings, make_stacks
from adalin.runs import Run, Session, Trial, kinds


@dataclass(frozen=True)
class Plan:
    """Estimates for this machine as busy as it is now."""

    steps: int
    """Gradient steps of all runs, from their start."""
    seconds: float
    """Time that all runs take together."""
    disk_bytes: int
    """Space that all runs need."""
    stacks: tuple[int, ...]
    """Number of runs in each stack."""


def plan(
    runs: Sequence[Run[Any]], *, workers: int, data: str | Path | None = None, hardware: Hardware | None = None
) -> Plan:
    """Train a little of each kind of stack in a temporary folder."""
    stacks = make_stacks(runs, workers)
    seconds, disk = 0.0, 0
    trials: dict[tuple[Path, ...], Trial] = {}
    with engine_settings(), tempfile.TemporaryDirectory() as out:
        session = Session(out=Path(out), data=data, hardware=hardware or Hardware())
        for stack in stacks:
            alike = tuple(run.setting_folder for run in stack)
            if alike not in trials:
                trials[alike] = kinds.get(stack[0].kind).trial(stack, session)
            trial = trials[alike]
            steps = sum(run.total_steps for run in stack)
            tasks = sum(run.tasks for run in stack)
            seconds += steps * trial.seconds_per_step + tasks * trial.seconds_per_task
            disk += tasks * trial.row_bytes + len(stack) * (2 * trial.checkpoint_bytes + trial.buffer_bytes)
    busy = min(workers, len(stacks))
    total = sum(run.total_steps for run in runs)
    return Plan(total, seconds / busy, disk, tuple(len(stack) for stack in stacks))
