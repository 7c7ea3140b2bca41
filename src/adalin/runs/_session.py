"""Under which conditions runs are trained. Their numbers do not depend on them, but for a little on the hardware."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adalin._hardware import Hardware
from adalin.runs._disk import RunFolderError
from adalin.runs._events import Emit, Problem, ignore
from adalin.runs._folder import RunFolder, RunInUseError
from adalin.runs._position import START, Position
from adalin.runs._run import ENDED, Run

LOCK_SECONDS = 10.0
"""Longest time that a command waits for folders whose process was just killed."""


def never() -> bool:
    """Is never asked to stop."""
    return False


@dataclass(frozen=True, kw_only=True)
class Session:
    """All that whoever trains a run must know beside the run."""

    out: Path
    """Folder of all runs."""
    data: str | Path | None = None
    """Folder of the data sets, or "bundled"; without one, $ADALIN_DATA or the user's cache."""
    hardware: Hardware = field(default_factory=Hardware)
    """Device and compiler of networks that are trained by autograd."""
    checkpoint_seconds: float = 60.0
    """Largest amount of work that is lost if the process is killed."""
    allow_engine_change: bool = False
    """Whether a run may go on with an engine whose numbers differ in their last digits."""
    monitor: bool = False
    """Whether looks and probes of the networks are written beside the rows."""
    lock_deadline: float = -math.inf
    """Time (of `time.monotonic`) until which the command waits for folders that another process works on."""
    emit: Emit = ignore
    """Function that gets every event."""
    stop: Callable[[], bool] = never
    """Question, asked now and then, whether to save and end."""

    @contextmanager
    def opened(self, run: Run[Any], manifest: Mapping[str, Any]) -> Iterator[RunFolder | None]:
        """The folder of a run, locked and made; None if something is wrong with it, which has been told."""
        folder = RunFolder(self.out / run.folder)
        with ExitStack() as lock:
            usable: RunFolder | None = folder
            try:
                lock.enter_context(folder.lock(until=self.lock_deadline))
                self._prepare(run, folder, dict(manifest))
            except (ValueError, RunFolderError) as error:  # other runs can go on
                usable = None
                self.emit(Problem(run, str(error), "in use" if isinstance(error, RunInUseError) else None))
            yield usable

    def _prepare(self, run: Run[Any], folder: RunFolder, manifest: dict[str, Any]) -> None:
        saved = folder.peek()
        position = START if saved is None else Position.read(saved)
        ended = run.state_at(position) in ENDED
        if position.recorded and not ended:
            self._warn(run, f"{folder.path} was imported with fewer tasks, without its network: it starts anew")
            folder.clear()
        elif "engine" in manifest and folder.exists and not ended:
            self._check_engine(run, folder, manifest["engine"])
        folder.create_or_check(dict(run.config), manifest, run.settings.defaults())
        if not ended:  # otherwise nothing is trained here
            folder.note_start(manifest)

    def _check_engine(self, run: Run[Any], folder: RunFolder, engine: Mapping[str, str]) -> None:
        """Raises ValueError if a run would go on with other numbers; one of an older version is set aside."""
        before = _last_engine(folder.manifest())
        if not before:
            place = folder.set_aside()
            self._warn(
                run, f"{folder.path} is a run of an older version: it starts anew; its files are in {place.name}"
            )
        elif before != engine:
            was, here = ", ".join(before.values()), ", ".join(engine.values())
            change = f"{folder.path} was trained with another engine ({was}) than there is here ({here})"
            if not self.allow_engine_change:
                raise ValueError(
                    f"{change}, and would go on with other last digits: use a machine like that one, or give "
                    "--allow-engine-change"
                )
            self._warn(run, f"{change}: it goes on with other last digits")

    def _warn(self, run: Run[Any], message: str) -> None:
        self.emit(Problem(run, message, is_warning=True))


def _last_engine(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The engine of a run's last start; empty for a run of a version that had none to tell apart."""
    engine = dict(manifest.get("engine", {}))
    last: Mapping[str, Any] = next(reversed(manifest.get("resumed", ())), {})  # how it differs from the first
    changes = {name.removeprefix("engine."): value for name, value in last.items() if name.startswith("engine.")}
    return engine | changes
