"""What all executors have in common: work goes in, events come out."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adalin.executors._pool import check_execution
from adalin.runs import Emit, Run, Session


@dataclass(frozen=True, kw_only=True)
class Work:
    """Runs, and all that a process anywhere must know to train them."""

    runs: Sequence[Run[Any]]
    """Runs to train."""
    session: Session
    """Folders, data and hardware. All machines see the folder of the runs, unless there is one to sync to."""
    sync_to: Path | None = None
    """Folder that all machines see, for copies of the runs; that of the session is then on each machine's own disk."""
    workers: int | None = None
    """Number of processes here, or of jobs elsewhere, that share the work; as many as there is room for without one."""
    plugins: Sequence[str] = ()
    """Modules to import first."""

    @property
    def shared(self) -> Path:
        """The folder that all machines see."""
        return self.session.out if self.sync_to is None else self.sync_to

    def check(self) -> None:
        """Raises an error that says what to do if there is no room for the runs, or nobody to train them."""
        out = self.session.out
        if self.sync_to is not None:
            places = (self.sync_to.resolve(), out.resolve())
            if any(place.is_relative_to(other) for place, other in itertools.permutations(places)):
                raise ValueError(f"--sync-to is for copies, and needs another folder than --out, {out}, outside it")
        check_execution(self.runs, self.session, 1 if self.workers is None else self.workers)


class Executor(ABC):
    """A place where runs are trained. A run resumes by itself, so that all it takes is to start it often enough."""

    @abstractmethod
    def train(self, work: Work, emit: Emit) -> bool:
        """Train runs to their end, or to the first SIGINT or SIGTERM, which saves; returns whether one came.

        Runs that die are tried again, with a pause, until as many retries in a row as are allowed have brought them no
        further. Then they are reported, and written down for whoever looks; they never stop the others.
        """


class Attempts:
    """How often each run was tried in vain since it last got further."""

    def __init__(self, retries: int, backoff: float) -> None:
        self._retries, self._backoff = retries, backoff
        self._failed: dict[Run[Any], tuple[int, int]] = {}

    def fail(self, run: Run[Any], steps: int) -> int:
        """Note that an attempt has ended at so many steps; returns how many of that kind there were."""
        count, before = self._failed.get(run, (0, -1))
        count = count + 1 if steps <= before else 1
        self._failed[run] = (count, max(steps, before))
        return count

    def over(self, count: int) -> bool:
        """Whether so many are enough."""
        return count > self._retries

    def pause(self, count: int) -> float:
        """Seconds to wait after so many: longer each time."""
        return self._backoff * 2.0 ** (count - 1)
