"""What the runs in a folder are doing, from the folder alone: works on any machine that sees it."""

import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adalin.executors._submission import Submission
from adalin.training import AnyRun, RunFolder, RunFolderError, read_run
from adalin.training._any_run import ENDED
from adalin.training._resume import last_checkpoint, wanted_run

STATES = ("done", "running", "waiting", "stopped", "failed", "diverged")


@dataclass(frozen=True, eq=False)
class RunStatus:
    """How far a run is."""

    run: AnyRun
    folder: Path
    state: str
    """Is "done", "running", "waiting", "stopped" (nobody waits for it), "failed" or "diverged"."""
    steps: int
    """Made so far, as far as is saved."""
    rows: list[dict[str, Any]]
    message: str = ""
    """Why it failed."""

    @property
    def score(self) -> float | None:
        """Mean over its rows of what people compare; a run that diverged has an accuracy of 0 from there on."""
        name = self.run.score
        values = [row[name] for row in self.rows if isinstance(row.get(name), int | float)]
        if self.state == "diverged" and name.endswith("accuracy"):
            return sum(values) / self.run.tasks
        return sum(values) / len(values) if values else None


@dataclass(frozen=True, eq=False)
class Status:
    """Of all runs in a folder."""

    runs: list[RunStatus]
    steps_per_second: float | None
    """Since those that are asked for were; None if nothing is going on."""
    problems: list[str]
    """Folders that cannot be read."""

    @property
    def counts(self) -> dict[str, int]:
        """Runs in each state."""
        return {state: sum(one.state == state for one in self.runs) for state in STATES}

    @property
    def seconds_left(self) -> float | None:
        """For what runs and waits, at the speed so far."""
        going = [one for one in self.runs if one.state in ("running", "waiting")]
        left = sum(one.run.total_steps - one.steps for one in going)
        return left / self.steps_per_second if self.steps_per_second else None

    @property
    def best(self) -> dict[str, tuple[AnyRun, float]]:
        """For each benchmark the setting with the highest mean score over seeds and tasks so far, and that."""
        settings: dict[Path, list[RunStatus]] = {}
        for one in self.runs:
            if one.score is not None:
                settings.setdefault(one.folder.parent, []).append(one)
        best: dict[str, tuple[AnyRun, float]] = {}
        for members in settings.values():
            run, score = members[0].run, sum(one.score or 0.0 for one in members) / len(members)
            if run.benchmark not in best or score > best[run.benchmark][1]:
                best[run.benchmark] = (run, score)
        return best


@dataclass(frozen=True, eq=False)
class Look:
    """What is saved of a run."""

    rows: list[dict[str, Any]]
    steps: int
    """That need not be made again."""
    state: str
    """That of its last checkpoint, or "new"; "done" with all tasks that are wanted. Finished ones are intact."""
    seal: tuple[tuple[str, int], ...] = ()
    """Changes whenever a file does."""
    position: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.state in ENDED


def look_at(path: Path, run: AnyRun, before: Look | None = None) -> Look:
    """Read a run's rows and position; what was seen before is returned if nothing has changed."""
    seal = _seal(path)
    if before is not None and before.seal == seal:
        return before
    folder = RunFolder(path)
    try:
        position, rows = folder.peek(), folder.rows()  # in this order: a checkpoint comes after its rows
        if position is not None and run.state_at(position) in ENDED:  # nobody will look again: is it intact?
            checkpoint, rows = last_checkpoint(folder)
            position = None if checkpoint is None else checkpoint.position
    except RunFolderError:  # whoever trains it says what is wrong
        return before or Look([], 0, "new")
    if position is None:
        return Look(rows, 0, "new", seal)
    state = run.state_at(position)
    starts_anew = "recorded" in position and state not in ENDED  # imported without its network
    return Look(rows[: run.tasks], 0 if starts_anew else run.steps_at(position), state, seal, position)


def _seal(folder: Path) -> tuple[tuple[str, int], ...]:
    with suppress(OSError):
        return tuple(sorted((entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(folder)))
    return ()


class StatusReader:
    """Reads the status of a folder again and again; what has not changed is not read again.

    It may be the folder of all runs, one above, or a part of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._looks: dict[tuple[Path, int], Look] = {}
        """By folder and tasks, of which more may be wanted later."""

    def read(self) -> Status:
        """The status now."""
        folders = {folder.path: folder for folder in RunFolder.find(self._folder)}
        outs = {self._folder, *(out for path in folders for out in path.parents[2:4])}
        submissions = [(out, submission) for out in outs for submission in Submission.read_all(out)]
        runs: dict[Path, AnyRun] = {}
        asked: dict[Path, Submission] = {}
        for out, submission in submissions:
            for config in submission.runs:
                with suppress(ValueError, TypeError):
                    run = read_run(config)
                    path = out / run.folder
                    if path.is_relative_to(self._folder):
                        runs[path], asked[path] = run, submission
        problems = []
        for path in folders.keys() - {path for path, submission in asked.items() if not submission.over}:
            try:
                run = wanted_run(folders[path])
                if path not in runs or run.tasks > runs[path].tasks:  # others have asked for more since
                    runs[path] = run
            except (KeyError, TypeError, ValueError, RunFolderError) as error:
                problems.append(f"{path} is not a run that adalin knows: {error}")
        self._looks = {
            (path, run.tasks): look_at(path, run, self._looks.get((path, run.tasks))) for path, run in runs.items()
        }
        statuses = [self._status(run, path, asked.get(path)) for path, run in sorted(runs.items())]
        return Status(statuses, _speed(statuses, asked, [one for _, one in submissions]), sorted(problems))

    def _status(self, run: AnyRun, path: Path, submission: Submission | None) -> RunStatus:
        look = self._looks[path, run.tasks]
        message = "" if submission is None else submission.failed.get(str(run.folder), "")
        waits = submission is not None and not submission.over
        if submission is not None and submission.executor != "slurm":  # whose jobs go on without their command
            waits = waits and not submission.silent
        if look.finished:
            state = look.state
        elif message and RunFolder(path).held_by() is None:  # else somebody has begun again since
            state = "failed"
        elif _is_running(RunFolder(path), look, 60.0 if submission is None else submission.checkpoint_seconds):
            state = "running"
        else:
            state = "waiting" if waits else "stopped"
        return RunStatus(run, path, state, look.steps, look.rows, message)


def _is_running(folder: RunFolder, look: Look, checkpoint_seconds: float) -> bool:
    if folder.held_by() is not None:
        return True
    with suppress(OSError):
        if (folder.path / "lock").read_text().strip().endswith(f" {socket.gethostname()}"):
            return False  # it was last held here, where we would see it
    # Locks of other machines are not visible on every file system. Something is written at every checkpoint.
    changed = max((when for _, when in look.seal), default=0) / 1e9
    return look.state != "stopped" and time.time() - changed < 2 * checkpoint_seconds + 30


def _speed(statuses: Iterable[RunStatus], asked: dict[Path, Submission], open_: Iterable[Submission]) -> float | None:
    """Of the commands that are still going on."""
    going = [one for one in open_ if not one.over and not one.silent]
    made = sum(one.steps for one in statuses if asked.get(one.folder) in going)
    seconds = time.time() - min((one.started for one in going), default=time.time())
    new = made - sum(one.made for one in going)
    return new / seconds if going and new > 0 and seconds > 0 else None
