"""What runs on a stream cost, from a few seconds of training."""

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from adalin._hardware import Hardware
from adalin.runs import Event, Progress, Row, RunFolder, Session, Trial
from adalin.supervised._build import StreamRun, Streams
from adalin.supervised._loop import is_stacked, train_runs

SECONDS = 2.0
"""How long each kind of stack is tried."""


def try_streams(stack: Sequence[StreamRun], streams: Streams, hardware: Hardware) -> Trial:
    """Train a stack for an epoch as a whole run, for what ends a task costs, and then for a few seconds."""
    # Networks that are trained one after the other take as long alone; trying all of them may take minutes.
    stack = stack if is_stacked(stack[0], streams) else stack[:1]
    with tempfile.TemporaryDirectory() as root:
        brief = _Stopwatch()
        epoch = [run.with_settings(epochs=1, steps=None, tasks=1) for run in stack]
        folders = brief.train(epoch, streams, Path(root, "short"), hardware, math.inf)
        if not all((folder.path / "rows.jsonl").exists() for folder in folders):
            raise ValueError(f"{stack[0].method} diverges within an epoch: there is nothing to plan with")
        last_step, _ = brief.moments[-1]
        per_task = (time.perf_counter() - last_step) / brief.ended  # a large stack is trained in parts
        row = max((folder.path / "rows.jsonl").stat().st_size for folder in folders)
        checkpoint = max(file.stat().st_size for folder in folders for file in folder.path.glob("checkpoint-*"))
        long = _Stopwatch()
        endless = [run.with_settings(tasks=1, epochs=100_000, steps=None) for run in stack]
        long.train(endless, streams, Path(root, "long"), hardware, SECONDS)
    (start, _), *rest = long.moments
    if not rest:
        raise ValueError(f"{stack[0].method} diverges at once: there is nothing to plan with")
    steps = sum(count for _, count in rest)
    end, _ = rest[-1]
    return Trial((end - start) / steps, per_task, row, checkpoint)


class _Stopwatch:
    """Notes when steps were made."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, int]] = []
        """Time, and steps that had just been made."""
        self.ended = 0
        """Runs whose task has ended since the last of these moments."""

    def train(
        self, runs: Sequence[StreamRun], streams: Streams, out: Path, hardware: Hardware, seconds: float
    ) -> list[RunFolder]:
        """Train for so long; returns the folders."""
        folders = [RunFolder(out / run.folder) for run in runs]
        for run, folder in zip(runs, folders, strict=True):
            folder.create_or_check(dict(run.config), {"tasks": run.tasks})
        deadline = time.perf_counter() + seconds
        session = Session(
            out=out,
            hardware=hardware,
            checkpoint_seconds=math.inf,
            emit=self._note,
            stop=lambda: len(self.moments) > 2 and time.perf_counter() > deadline,
        )
        train_runs(list(zip(runs, folders, strict=True)), streams, session)
        return folders

    def _note(self, event: Event) -> None:
        match event:
            case Progress(steps=steps):
                self.moments.append((time.perf_counter(), steps))
                self.ended = 0
            case Row():
                self.ended += 1
