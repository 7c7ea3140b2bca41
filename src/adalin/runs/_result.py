"""What has come of a run so far, read from its folder, and where it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adalin._registry import UnknownNameError
from adalin.runs._checkpoint import Checkpoint
from adalin.runs._disk import RunFolderError
from adalin.runs._events import Ended, Problem, Resumed
from adalin.runs._folder import RunFolder
from adalin.runs._position import START, Position
from adalin.runs._run import ENDED, Run, read_run
from adalin.runs._session import Session

Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Result:
    """What has come of a run so far."""

    run: Run[Any]
    """Run that it has come of."""
    rows: Rows
    """Rows of the finished tasks."""
    position: Position
    """Position of the last checkpoint."""
    manifest: dict[str, Any]
    """Machine, versions and data of the run."""
    core_seconds: float = 0.0
    """Seconds of one core that it has taken; 0 if nobody knows."""

    @classmethod
    def open(cls, folder: RunFolder, run: Run[Any] | None = None) -> "Result":
        """Read a folder; without a run, as the one with as many tasks as were ever asked for."""
        saved = folder.snapshot()
        if "data" not in saved.manifest:
            raise RunFolderError(f"{folder.path}/manifest.json is damaged: it does not say what the run was trained on")
        if run is None:
            run = _defined_run(folder, saved.config, saved.manifest)
        position = START if saved.position is None else Position.read(saved.position)
        return cls(run, saved.rows[: run.tasks], position, saved.manifest, saved.core_seconds)

    @property
    def source(self) -> str:
        """Data or simulator that it was trained on, for people."""
        data = self.manifest["data"]
        return self.run.description.source if data is None else str(data["source"])

    @property
    def state(self) -> str:
        """Is "done", "diverged" or "unfinished"."""
        state = self.run.state_at(self.position)
        return state if state in ENDED else "unfinished"


def find_results(root: Path) -> tuple[list[Result], list[str]]:
    """Every run in and below a folder, and what is wrong with those that cannot be read."""
    results, problems = [], []
    for folder in RunFolder.find(root):
        try:
            results.append(Result.open(folder))
        except RunFolderError as error:
            problems.append(str(error))
    return results, problems


def wanted_run(folder: RunFolder) -> Run[Any]:
    """The run of a folder, with as many tasks as were ever asked for; raises RunFolderError."""
    return _defined_run(folder, folder.config(), folder.manifest())


def _defined_run(folder: RunFolder, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> Run[Any]:
    starts = (manifest, *manifest.get("resumed", ()))
    try:
        tasks = max(start["tasks"] for start in starts if "tasks" in start)
        return read_run({**config, "tasks": tasks})
    except UnknownNameError as error:
        raise RunFolderError(f"{folder.path} is not a run that adalin knows: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder.path} is not a run of adalin: {error}") from None


def resume(run: Run[Any], folder: RunFolder, session: Session) -> Checkpoint | None:
    """The last checkpoint, without tensors if there is none yet; None if there is nothing left to do.

    Rows of tasks after it are dropped: they are made again.
    """

    def warn(message: str) -> None:
        session.emit(Problem(run, message, is_warning=True))

    found = folder.load(warn)
    if found is None and (rows := folder.rows()):
        warn(f"{folder.path} has {len(rows)} rows but no checkpoint: the run starts anew")
    position = START if found is None else Position.read(found.position)
    folder.trim_rows(position.task)
    session.emit(Resumed(run, run.steps_at(position)))
    if run.state_at(position) in ENDED:
        session.emit(Ended(run, position))
        return None
    return found or Checkpoint({}, START.as_dict())
