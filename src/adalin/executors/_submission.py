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
from adalin.runs import RunFolderError, Schema, plain_disk_errors, read_json, write_atomically

FOLDER = ".jobs"
FIELDS = {
    "executor": str,
    "runs": [{str: object}],
    "made": int,
    "started": float,
    "host": str,
    "pid": range(0, 2**31),
    "checkpoint_seconds": float,
    "jobs": {str: {"id": str, "runs": [str], "log": str}},
    "failed": {str: str},
    "over": bool,
}
"""Fields of a submission's file."""
CONTENT = Schema(FIELDS)
MOST_BYTES = 1 << 28
"""Size of the largest submission; one of 100,000 runs has 40 MB."""
HEARTBEAT_SECONDS = 5.0
"""Pause between signs of life."""
SILENT_SECONDS = 60.0
"""Silence after which a command that should be there is taken for dead."""


@dataclass(eq=False)
class Submission:
    """One command's runs, jobs and failures, in a file."""

    folder: Path
    """Folder of its files."""
    executor: str
    """Name of the executor."""
    runs: Sequence[dict[str, Any]]
    """Definitions of its runs."""
    made: int
    """Steps that its runs had made before."""
    started: float
    """Time of its start, in seconds since 1970."""
    host: str
    """Machine of its command."""
    pid: int
    """Process of its command."""
    checkpoint_seconds: float
    """Largest amount of work that may be lost."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Runs of each job, and the id under which the engine knows it, by the name of the job's file."""
    failed: dict[str, str] = field(default_factory=dict)
    """Messages about runs that failed, by the run's folder."""
    over: bool = False
    """Whether nobody waits for its runs any more."""
    _written: float = field(default=0.0, repr=False)

    @classmethod
    def start(cls, work: Work, executor: str, made: int) -> "Submission":
        """The one of this process."""
        now, host, pid = time.time(), socket.gethostname(), os.getpid()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + f"{now % 1:.6f}"[1:]
        folder = work.shared / FOLDER / f"{stamp}-{host}-{pid}"
        with plain_disk_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.parent.chmod(0o700)  # jobs run what is written here: nobody else may write
            folder.mkdir(mode=0o700, exist_ok=True)
        runs = [run.definition() for run in work.runs]
        started = cls(folder, executor, runs, made, now, host, pid, work.session.checkpoint_seconds)
        started.write()
        return started

    @classmethod
    def read_all(cls, out: Path) -> list["Submission"]:
        """Those of a folder, oldest first."""
        found = []
        for path in sorted((out / FOLDER).glob("*/submission.json")):
            with suppress(RunFolderError):  # one that is being deleted, is damaged, or is not ours
                content = read_json(path, CONTENT, most_bytes=MOST_BYTES)
                # Another version may have written more.
                found.append(cls(path.parent, **{name: content[name] for name in FIELDS}))
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
        content = {name: getattr(self, name) for name in FIELDS}
        with plain_disk_errors(self._path):
            write_atomically(self._path, json.dumps(content).encode(), temporary=self.folder / "submission.tmp")
        self._written = time.monotonic()

    def heartbeat(self) -> None:
        """Show that the command lives."""
        if time.monotonic() - self._written > HEARTBEAT_SECONDS:
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
