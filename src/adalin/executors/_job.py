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

from adalin.data import BUNDLED
from adalin.executors._executor import Work
from adalin.executors._mirror import mirrored
from adalin.training import AnyRun, Hardware, execute, read_run
from adalin.training._disk import write_atomically


@dataclass(frozen=True, eq=False)
class Job:
    """Runs that one process, or a few on one machine, train."""

    path: Path
    """Its file; beside it, what its processes write: `.log`, and `.errors` with a line per run that went wrong."""
    runs: Sequence[AnyRun]
    alone: bool = False
    """Its runs have failed before, and are not to be trained with others."""

    @property
    def name(self) -> str:
        """Within its submission."""
        return self.path.stem

    @property
    def log(self) -> Path:
        """What its processes had to say."""
        return self.path.with_suffix(".log")

    def write(self, work: Work, workers: int) -> None:
        """All that a process elsewhere needs."""
        data = work.data or os.environ.get("ADALIN_DATA") or None
        content = {
            "runs": [run.definition() for run in self.runs],
            "out": str(work.out.absolute()),
            "sync_to": work.sync_to and str(work.sync_to.absolute()),
            "data": data and str(data if str(data) == BUNDLED else Path(data).expanduser().absolute()),
            "workers": workers,
            "checkpoint_seconds": work.checkpoint_seconds,
            "plugins": list(work.plugins),
            "path": [str(Path.cwd())] if work.plugins else [],
            "device": work.device,
            "compile": work.compile,
        }
        write_atomically(self.path, json.dumps(content).encode(), temporary=self.path.with_suffix(".tmp"))

    def errors(self) -> dict[str, dict[str, Any]]:
        """What its processes reported of runs, by their folder; the last word counts."""
        found = {}
        path = self.path.with_suffix(".errors")
        if path.exists():
            for line in path.read_text().splitlines():
                with suppress(ValueError):  # half a line, of a process that was killed
                    entry = json.loads(line)
                    found[entry.pop("run")] = entry
        return found


def train_job(path: str | Path, asked: Callable[[], bool] = lambda: False) -> bool:
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

            def report(event: str, run: AnyRun, details: dict[str, Any]) -> None:
                if event in ("warning", "error"):
                    print(f"{_now()} {event}: {run.folder}: {details['message']}", file=log)
                if event == "error":
                    with path.with_suffix(".errors").open("a") as errors:
                        errors.write(json.dumps({"run": str(run.folder), **details}) + "\n")

            runs, out = [read_run(config) for config in content["runs"]], Path(content["out"])
            shared, seconds = content["sync_to"] and Path(content["sync_to"]), content["checkpoint_seconds"]
            with mirrored(runs, out, shared, seconds=seconds, report=report) as ours:
                stopped = execute(
                    ours,
                    out=out,
                    data=content["data"],
                    workers=content["workers"],
                    report=report,
                    checkpoint_seconds=seconds,
                    plugins=content["plugins"],
                    hardware=Hardware(content["device"], content["compile"]),
                    asked=asked,
                )
            print(f"{_now()} {'stopped and saved' if stopped else 'over'}", file=log)
            return stopped
        finally:
            faulthandler.disable()


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
