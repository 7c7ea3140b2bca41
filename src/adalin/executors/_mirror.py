"""Runs on a machine's own disk, with copies in a folder that all machines see."""

import resource
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from adalin.runs import (
    START,
    Position,
    Problem,
    Run,
    RunFolder,
    RunFolderError,
    RunInUseError,
    Session,
    plain_disk_errors,
    write_atomically,
)

CHECKPOINT, REPLAY = "checkpoint-", "replay-"
"""How the names of files begin that carry the hash of what they hold."""


@contextmanager
def mirrored(runs: Sequence[Run[Any]], session: Session, shared: Path | None) -> Iterator[list[Run[Any]]]:
    """Fetch what others have made of runs, copy what is made here now and then and at the end; gives those to train.

    The lock of a run is then that of its copy, which all machines see. A run that cannot be read, there or here, is
    left as it is. Without a shared folder nothing is done.
    """
    if shared is None:
        yield list(runs)
        return
    _allow_open_files()
    with ExitStack() as locks:
        ours = []
        for run in runs:
            try:
                locks.enter_context(RunFolder(shared / run.folder).lock(until=session.lock_deadline))
                _fetch(run, shared, session)
                ours.append(run)
            except (OSError, RunFolderError) as error:  # the others can go on
                session.emit(Problem(run, str(error), "in use" if isinstance(error, RunInUseError) else None))
        over = threading.Event()

        def copy(run: Run[Any]) -> None:
            here = session.out / run.folder
            if (here / "config.json").exists():
                copy_run(here, shared / run.folder)

        def copy_now_and_then() -> None:
            while not over.wait(min(max(1.0, session.checkpoint_seconds), threading.TIMEOUT_MAX)):
                for run in ours:
                    with suppress(OSError, RunFolderError):  # the last copy, below, says what is wrong
                        copy(run)

        thread = threading.Thread(target=copy_now_and_then, daemon=True)
        thread.start()
        try:
            yield ours
        finally:
            over.set()
            thread.join()
            for run in ours:
                try:
                    copy(run)
                except (OSError, RunFolderError) as error:
                    session.emit(Problem(run, str(error), "copy"))


def _fetch(run: Run[Any], shared: Path, session: Session) -> None:
    """Go on from the copy if it has got further."""

    def warn(message: str) -> None:
        session.emit(Problem(run, message, is_warning=True))

    theirs, here = _position(shared / run.folder, warn), session.out / run.folder
    if theirs > (0, 0):
        # Another command may be training it here, without copies: its folder must not change meanwhile.
        with RunFolder(here).lock(until=session.lock_deadline):
            if theirs > _position(here):
                copy_run(shared / run.folder, here)


def copy_run(source: Path, target: Path) -> None:
    """Copy a run's folder, which may be written to meanwhile, so that the run can go on from the copy at any time."""
    kept = {path.name for path in source.iterdir()}
    checkpoints = _new(source, target, CHECKPOINT)
    # Read after the checkpoints, whose rows and transitions are then there, and written before them likewise.
    pieces = _new(source, target, REPLAY)
    others = [path for path in source.iterdir() if not path.name.startswith((CHECKPOINT, REPLAY))]
    contents = {path.name: path.read_bytes() for path in others if path.is_file() and path.suffix != ".tmp"}
    contents.pop("lock", None)
    with plain_disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        for aside in source.glob("set-aside-*"):  # before what takes their place
            if not (target / aside.name).exists():
                unfinished = target / "set-aside.tmp"
                shutil.rmtree(unfinished, ignore_errors=True)
                shutil.copytree(aside, unfinished).rename(target / aside.name)
        for name, data in (*contents.items(), *pieces.items(), *checkpoints.items()):
            path = target / name
            if not (path.exists() and path.read_bytes() == data):
                RunFolder(target).check_lock()
                # One name for all, so that a copy which is killed leaves no more than one of them behind.
                write_atomically(path, data, temporary=target / "copy.tmp")
        kept |= {path.name for path in source.iterdir()}
        # Pieces too: one that another machine made and lost would be taken for a part of the buffer.
        for path in (*_files(target, CHECKPOINT), *_files(target, REPLAY)):
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _files(folder: Path, kind: str) -> list[Path]:
    """Oldest first."""
    return sorted(path for path in folder.glob(f"{kind}*") if path.suffix != ".tmp")


def _new(source: Path, target: Path, kind: str) -> dict[str, bytes]:
    """What the target has not; whole buffers are not read each time."""
    return {path.name: path.read_bytes() for path in _files(source, kind) if not (target / path.name).exists()}


def _position(folder: Path, warn: Callable[[str], None] = lambda message: None) -> tuple[int, int]:
    """How far a run is, however many tasks are wanted now."""
    checkpoint = RunFolder(folder).load(warn)
    position = START if checkpoint is None else Position.read(checkpoint.position)
    return position.task, position.step


def _allow_open_files() -> None:
    """As many as the system permits: the lock of every run is one, and the usual limit is 1,024."""
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
