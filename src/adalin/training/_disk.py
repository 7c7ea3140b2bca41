"""Writing to a disk that may be full, read-only or without power at any moment."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class RunFolderError(RuntimeError):
    """A run's folder cannot be used: in use, not writable, full, or damaged."""


def check_writable(folder: Path, needed_bytes: int) -> None:
    """Raises RunFolderError, before a run starts, if a folder (that need not exist) cannot take this many bytes."""
    with plain_disk_errors(folder):
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir():
            raise RunFolderError(f"{existing} is a file, and the runs need a folder; choose another one")
        # Asking for permissions is not enough: root has them on a read-only disk too.
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
    if free < needed_bytes:
        raise RunFolderError(
            f"the disk of {folder} has {free / 1e6:,.1f} MB free and the run needs {needed_bytes / 1e6:,.1f} MB; "
            "make room or choose another folder"
        )


def write_atomically(path: Path, data: bytes, *, temporary: Path) -> None:
    """Replaces a file so that whoever looks, even after a crash, finds the old content or the new, never a mixture."""
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder survive a power cut; fsync of a file covers its content only."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def plain_disk_errors(path: Path, error_class: type[RunFolderError] = RunFolderError) -> Iterator[None]:
    """Turns what the system refuses into one line that says what to do."""
    try:
        yield
    except OSError as error:
        raise error_class(
            f"cannot write to {path}: {error.strerror or error}; "
            "make room or permit writing there, then start the same command again"
        ) from error
