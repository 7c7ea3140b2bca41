"""What a set of runs will cost, from a few seconds of training."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adalin._hardware import Hardware
from adalin.executors._pool import engine_settings
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


def plan(
    runs: Sequence[Run[Any]], *, workers: int, data: str | Path | None = None, hardware: Hardware | None = None
) -> Plan:
    """Train one run of each setting for a little, in a temporary folder."""
    seconds, disk = 0.0, 0
    trials: dict[Path, Trial] = {}
    with engine_settings(), tempfile.TemporaryDirectory() as out:
        session = Session(out=Path(out), data=data, hardware=hardware or Hardware())
        for run in runs:
            if run.setting_folder not in trials:
                trials[run.setting_folder] = kinds.get(run.kind).trial(run, session)
            trial = trials[run.setting_folder]
            seconds += run.total_steps * trial.seconds_per_step + run.tasks * trial.seconds_per_task
            disk += run.tasks * trial.row_bytes + 2 * trial.checkpoint_bytes + trial.buffer_bytes
    total = sum(run.total_steps for run in runs)
    return Plan(total, seconds / min(workers, len(runs)), disk)
