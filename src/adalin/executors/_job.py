"""A job: some runs, and the process that trains them, on whatever machine."""

import faulthandler
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from adalin._hardware import Hardware
from adalin.data import BUNDLED
from adalin.executors._executor import Work
from adalin.executors._mirror import mirrored
from adalin.executors._pool import execute
from adalin.runs import (
    LOCK_SECONDS,
    Event,
    Problem,
    Run,
    RunFolderError,
    Schema,
    Session,
    never,
    parse_json,
    read_run,
    write_atomically,
)

ERROR = Schema({"run": str, "message": str, "cause?": str})
"""Fields of a line about a run that went wrong."""


@dataclass(frozen=True, eq=False)
class Job:
    """Runs that one process, or a few on one machine, train."""

    path: Path
    """File of the job; beside it, what its processes write: `.log`, and `.errors` with a line per run that failed."""
    runs: Sequence[Run[Any]]
    """Runs to train."""
    alone: bool = False
    """Whether its runs have failed before, and are not to be trained with others."""

    @property
    def name(self) -> str:
        """Name of the job within its submission."""
        return self.path.stem

    @property
    def log(self) -> Path:
        """File of what its processes print."""
        return self.path.with_suffix(".log")

    def write(self, work: Work, workers: int) -> None:
        """Write all that a process elsewhere needs."""
        session = work.session
        data = session.data or os.environ.get("ADALIN_DATA") or None
        content = {
            "runs": [run.definition() for run in self.runs],
            "out": str(session.out.absolute()),
            "sync_to": work.sync_to and str(work.sync_to.absolute()),
            "data": data and str(data if str(data) == BUNDLED else Path(data).expanduser().absolute()),
            "workers": workers,
            "checkpoint_seconds": session.checkpoint_seconds,
            "plugins": list(work.plugins),
            "path": [str(Path.cwd())] if work.plugins else [],
            "device": session.hardware.device,
            "compile": session.hardware.compile,
            "allow_engine_change": session.allow_engine_change,
            "monitor": session.monitor,
        }
        write_atomically(self.path, json.dumps(content).encode(), temporary=self.path.with_suffix(".tmp"))

    def errors(self) -> dict[str, dict[str, Any]]:
        """What its processes reported of runs, by their folder; the last word counts."""
        found = {}
        path = self.path.with_suffix(".errors")
        if path.exists():
            for line in path.read_text().splitlines():
                with suppress(RunFolderError):  # half a line, of a process that was killed
                    entry = parse_json(line.encode(), ERROR, path)
                    found[entry.pop("run")] = entry
        return found


def train_job(path: str | Path, stop: Callable[[], bool] = never) -> bool:
    """Train the runs of a job, to their end, to a signal, or until asked to stop; returns whether it was stopped."""
    path = Path(path)
    content = json.loads(path.read_bytes())
    with path.with_suffix(".log").open("a", buffering=1) as log:
        faulthandler.enable(log)
        try:
            print(f"{_now()} {socket.gethostname()} pid {os.getpid()}: {len(content['runs'])} runs", file=log)
            sys.path[:0] = [entry for entry in content["path"] if entry not in sys.path]
            for plugin in content["plugins"]:
                import_module(plugin)

            def note(event: Event) -> None:
                if isinstance(event, Problem):
                    kind = "warning" if event.is_warning else "error"
                    print(f"{_now()} {kind}: {event.run.folder}: {event.message}", file=log)
                    if not event.is_warning:
                        _note_error(path, event)

            session = Session(
                out=Path(content["out"]),
                data=content["data"],
                hardware=Hardware(content["device"], content["compile"]),
                checkpoint_seconds=content["checkpoint_seconds"],
                allow_engine_change=content["allow_engine_change"],
                monitor=content.get("monitor", False),
                lock_deadline=time.monotonic() + LOCK_SECONDS,
                emit=note,
                stop=stop,
            )
            runs = [read_run(definition) for definition in content["runs"]]
            shared = content["sync_to"] and Path(content["sync_to"])
            with mirrored(runs, session, shared) as ours:
                stopped = execute(ours, session, workers=content["workers"], plugins=content["plugins"])
            print(f"{_now()} {'stopped and saved' if stopped else 'over'}", file=log)
            return stopped
        finally:
            faulthandler.disable()


def _note_error(path: Path, problem: Problem) -> None:
    cause = {} if problem.cause is None else {"cause": problem.cause}
    entry = {"run": str(problem.run.folder), "message": problem.message, **cause}
    with path.with_suffix(".errors").open("a") as errors:
        errors.write(json.dumps(entry) + "\n")


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
