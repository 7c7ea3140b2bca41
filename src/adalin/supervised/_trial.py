"""What a run on a stream costs, from a few seconds of training."""

import math
import tempfile
import time
from pathlib import Path

from adalin._hardware import Hardware
from adalin.runs import Event, Progress, RunFolder, Session, Trial
from adalin.supervised._build import StreamRun, Streams
from adalin.supervised._loop import train_run

SECONDS = 2.0
"""How long each kind of run is tried."""


def try_run(run: StreamRun, streams: Streams, hardware: Hardware) -> Trial:
    """Train for an epoch as a whole run, for what the end of a task costs, and then for a few seconds."""
    with tempfile.TemporaryDirectory() as root:
        brief = _Stopwatch()
        epoch = run.with_settings(epochs=1, steps=None, tasks=1)
        folder = brief.train(epoch, streams, Path(root, "short"), hardware, math.inf)
        rows = folder.path / "rows.jsonl"
        if not rows.exists():
            raise ValueError(f"{run.method} diverges within an epoch: there is nothing to plan with")
        last_step, _ = brief.moments[-1]
        per_task = time.perf_counter() - last_step
        row = rows.stat().st_size
        checkpoint = max(file.stat().st_size for file in folder.path.glob("checkpoint-*"))
        long = _Stopwatch()
        endless = run.with_settings(tasks=1, epochs=100_000, steps=None)
        long.train(endless, streams, Path(root, "long"), hardware, SECONDS)
    if len(long.moments) < 2:
        raise ValueError(f"{run.method} diverges at once: there is nothing to plan with")
    (start, _), *rest = long.moments
    steps = sum(count for _, count in rest)
    end, _ = rest[-1]
    return Trial((end - start) / steps, per_task, row, checkpoint)


class _Stopwatch:
    """Notes when steps were made."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, int]] = []
        """Time, and steps that had just been made."""

    def train(self, run: StreamRun, streams: Streams, out: Path, hardware: Hardware, seconds: float) -> RunFolder:
        """Train for so long; returns the folder."""
        folder = RunFolder(out / run.folder)
        folder.create_or_check(dict(run.config), {"tasks": run.tasks})
        deadline = time.perf_counter() + seconds
        session = Session(
            out=out,
            hardware=hardware,
            checkpoint_seconds=math.inf,
            emit=self._note,
            stop=lambda: len(self.moments) > 2 and time.perf_counter() > deadline,
        )
        train_run(run, folder, streams, session)
        return folder

    def _note(self, event: Event) -> None:
        if isinstance(event, Progress):
            self.moments.append((time.perf_counter(), event.steps))
