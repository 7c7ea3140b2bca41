"""What a command has asked for, so that anybody who sees the folder can tell what waits and what failed.

OUT/.jobs/<time>-<machine>-<pid>/
    submission.json     runs, jobs, failures; touched while the command lives
    job-<number>.json   what a process needs to train some of the runs: see _job.py
"""

import json
import os
import shutil
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adalin.executors._executor import Work
from adalin.training._disk import plain_disk_errors, write_atomically

FOLDER = ".jobs"
BEAT_SECONDS = 5.0
SILENT_SECONDS = 60.0
"""After which a command that should be there is taken for dead."""


@dataclass(eq=False)
class Submission:
    """One command's runs, jobs and failures, in a file."""

    folder: Path
    executor: str
    runs: Sequence[dict[str, Any]]
    """Configurations, with their tasks."""
    made: int
    """Steps that they had made before."""
    started: float
    host: str
    """The machine of its command."""
    pid: int
    checkpoint_seconds: float
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the name of the job's file: which runs it has, and under which id the engine knows it."""
    failed: dict[str, str] = field(default_factory=dict)
    """What is wrong, by the run's folder."""
    over: bool = False
    """Nobody waits for its runs any more."""
    _written: float = field(default=0.0, repr=False)

    @classmethod
    def start(cls, work: Work, executor: str, made: int) -> "Submission":
        """The one of this process."""
        now, host, pid = time.time(), socket.gethostname(), os.getpid()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + f"{now % 1:.6f}"[1:]
        folder = work.shared / FOLDER / f"{stamp}-{host}-{pid}"
        with plain_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        runs = [run.definition() for run in work.runs]
        started = cls(folder, executor, runs, made, now, host, pid, work.checkpoint_seconds)
        started.write()
        return started

    @classmethod
    def read_all(cls, out: Path) -> list["Submission"]:
        """Those of a folder, oldest first."""
        found = []
        for path in sorted((out / FOLDER).glob("*/submission.json")):
            with suppress(OSError, ValueError, TypeError):  # one that is being deleted, or is not ours
                found.append(cls(path.parent, **json.loads(path.read_bytes())))
        return found

    @property
    def silent(self) -> bool:
        """Whether its command seems to be dead; on its own machine that is known at once."""
        try:
            if self.host == socket.gethostname():
                with suppress(PermissionError):  # it is another user's
                    os.kill(self.pid, 0)
            return time.time() - self._path.stat().st_mtime > SILENT_SECONDS
        except OSError:
            return True

    def write(self) -> None:
        """Make what has changed known."""
        content = {name: value for name, value in vars(self).items() if name not in ("folder", "_written")}
        with plain_disk_errors(self._path):
            write_atomically(self._path, json.dumps(content).encode(), temporary=self.folder / "submission.tmp")
        self._written = time.monotonic()

    def beat(self) -> None:
        """Show that the command lives."""
        if time.monotonic() - self._written > BEAT_SECONDS:
            with suppress(OSError):
                os.utime(self._path)
            self._written = time.monotonic()

    def end(self) -> None:
        """Nobody waits for its runs any more."""
        self.over = True
        self.write()

    def forget(self) -> None:
        """Delete it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # others may be there
            self.folder.parent.rmdir()

    @property
    def _path(self) -> Path:
        return self.folder / "submission.json"
