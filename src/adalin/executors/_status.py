"""What the runs in a folder are doing, from the folder alone: works on any machine that sees it."""

import os
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adalin.executors._submission import Submission
from adalin.metrics import is_accuracy
from adalin.runs import ENDED, START, Position, Run, RunFolder, RunFolderError, read_run, wanted_run

STATES = ("done", "running", "waiting", "stopped", "failed", "diverged")


@dataclass(frozen=True, eq=False)
class RunStatus:
    """How far a run is."""

    run: Run[Any]
    """Run that it is about."""
    folder: Path
    """Folder of the run."""
    state: str
    """State: done, running, waiting, stopped (nobody waits for it), failed or diverged."""
    steps: int
    """Steps made so far: those before the last checkpoint or, if that is further, before the last row."""
    rows: list[dict[str, Any]]
    """Rows of the finished tasks."""
    message: str = ""
    """Reason why it failed."""

    @property
    def wanted_steps(self) -> int:
        """Steps that it will have made in the end: one that diverged makes no more."""
        return self.steps if self.state == "diverged" else self.run.total_steps

    @property
    def score(self) -> float | None:
        """Mean over its rows of the number that people compare; after a run diverged its accuracy is 0."""
        name = self.run.description.score
        values = [row[name] for row in self.rows if isinstance(row.get(name), int | float)]
        if self.state == "diverged" and is_accuracy(name):
            return sum(values) / self.run.tasks
        return sum(values) / len(values) if values else None


@dataclass(frozen=True, eq=False)
class Status:
    """What all runs in a folder are doing."""

    runs: list[RunStatus]
    """Status of each run."""
    steps_per_second: float | None
    """Speed of the commands that are going on; None without one."""
    problems: list[str]
    """Messages about folders that cannot be read."""

    @property
    def counts(self) -> dict[str, int]:
        """Runs in each state."""
        return {state: sum(found.state == state for found in self.runs) for state in STATES}

    @property
    def seconds_left(self) -> float | None:
        """Seconds until what runs and waits is done, at the speed so far; None if nothing is going on."""
        going = [found for found in self.runs if found.state in ("running", "waiting")]
        left = sum(found.wanted_steps - found.steps for found in going)
        return left / self.steps_per_second if self.steps_per_second else None

    @property
    def best(self) -> dict[str, tuple[Run[Any], float]]:
        """Setting with the highest mean score over seeds and tasks so far, and that score, by benchmark."""
        settings: dict[Path, list[RunStatus]] = {}
        for found in self.runs:
            if found.score is not None:
                settings.setdefault(found.folder.parent, []).append(found)
        best: dict[str, tuple[Run[Any], float]] = {}
        for members in settings.values():
            run, score = members[0].run, sum(member.score or 0.0 for member in members) / len(members)
            if run.benchmark not in best or score > best[run.benchmark][1]:
                best[run.benchmark] = (run, score)
        return best


@dataclass(frozen=True, eq=False)
class SavedState:
    """What is saved of a run."""

    rows: list[dict[str, Any]]
    """Rows of the finished tasks."""
    steps: int
    """Steps that need not be made again."""
    state: str
    """State of its last checkpoint, or "new"; "done" with all tasks that are wanted. Finished ones are intact."""
    seal: tuple[tuple[str, int], ...] = ()
    """Names and times of its files, which change whenever a file does."""
    position: Position = START
    """Position of its last checkpoint, its start without one."""
    problem: str = ""
    """Damage because of which nothing newer can be read."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.state in ENDED


def read_state(path: Path, run: Run[Any], before: SavedState | None = None) -> SavedState:
    """Read a run's rows and position; what was seen before is returned if nothing has changed."""
    seal, folder = _seal(path), RunFolder(path)
    if before is not None and before.seal == seal:
        return before
    try:
        saved = folder.snapshot()
        found = saved.position
        if found is not None and run.state_at(Position.read(found)) in ENDED:  # nobody will look again: is it intact?
            checkpoint = folder.load(lambda message: None)
            found = None if checkpoint is None else checkpoint.position
    except RunFolderError as error:
        if not folder.exists:  # it has not begun
            return SavedState([], 0, "new", seal)
        return replace(before or SavedState([], 0, "new", seal), problem=str(error))
    position, rows = None if found is None else Position.read(found), saved.rows
    if position is None:
        return SavedState(rows, 0, "new", seal)
    state = run.state_at(position)
    starts_anew = position.recorded and state not in ENDED  # imported without its network
    return SavedState(rows[: run.tasks], 0 if starts_anew else run.steps_at(position), state, seal, position)


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
        self._looks: dict[tuple[Path, int], SavedState] = {}
        """States seen before, by folder and tasks, of which more may be wanted later."""

    def read(self) -> Status:
        """The status now."""
        folders = {folder.path: folder for folder in RunFolder.find(self._folder)}
        outs = {self._folder, *(out for path in folders for out in path.parents[2:4])}
        submissions = [(out, submission) for out in outs for submission in Submission.read_all(out)]
        runs: dict[Path, Run[Any]] = {}
        asked: dict[Path, Submission] = {}
        for out, submission in submissions:
            for config in submission.runs:
                with suppress(ValueError, TypeError):
                    run = read_run(config)
                    path = out / run.folder
                    if path.is_relative_to(self._folder):
                        runs[path], asked[path] = run, submission
        problems = []
        expected = {path for path, submission in asked.items() if not submission.over}
        for path in folders.keys() - expected:
            try:
                run = wanted_run(folders[path])
            except RunFolderError as error:
                problems.append(str(error))
                continue
            if path not in runs or run.tasks > runs[path].tasks:  # others have asked for more since
                runs[path] = run
        self._looks = {
            (path, run.tasks): read_state(path, run, self._looks.get((path, run.tasks))) for path, run in runs.items()
        }
        statuses = [self._status(run, path, asked.get(path)) for path, run in sorted(runs.items())]
        return Status(
            statuses, _speed(statuses, asked, [submission for _, submission in submissions]), sorted(problems)
        )

    def _status(self, run: Run[Any], path: Path, submission: Submission | None) -> RunStatus:
        look = self._looks[path, run.tasks]
        message = "" if submission is None else submission.failed.get(str(run.folder), "")
        waits = submission is not None and not submission.over
        if submission is not None and submission.executor != "slurm":  # whose jobs go on without their command
            waits = waits and not submission.silent
        if look.problem and RunFolder(path).held_by() is None:  # else it may be mended at this moment
            state, message = "failed", look.problem
        elif look.finished:
            state = look.state
        elif message and RunFolder(path).held_by() is None:  # else somebody has begun again since
            state = "failed"
        elif _is_running(RunFolder(path), look, 60.0 if submission is None else submission.checkpoint_seconds):
            state = "running"
        else:
            state = "waiting" if waits else "stopped"
        steps = max(look.steps, run.steps_of(len(look.rows))) if look.state != "diverged" else look.steps
        return RunStatus(run, path, state, steps, look.rows, message)


def _is_running(folder: RunFolder, look: SavedState, checkpoint_seconds: float) -> bool:
    if folder.held_by() is not None:
        return True
    if folder.last_held_by() == socket.gethostname():
        return False  # we would see it
    # Locks of other machines are not visible on every file system. Something is written at every checkpoint.
    changed = max((when for _, when in look.seal), default=0) / 1e9
    return look.state != "stopped" and time.time() - changed < 2 * checkpoint_seconds + 30


def _speed(
    statuses: Iterable[RunStatus], asked: Mapping[Path, Submission], submissions: Iterable[Submission]
) -> float | None:
    """Steps per second of the commands that are still going on."""
    going = [submission for submission in submissions if not submission.over and not submission.silent]
    made = sum(status.steps for status in statuses if asked.get(status.folder) in going)
    seconds = time.time() - min((submission.started for submission in going), default=time.time())
    new = made - sum(submission.made for submission in going)
    return new / seconds if going and new > 0 and seconds > 0 else None
