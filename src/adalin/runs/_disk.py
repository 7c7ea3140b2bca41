"""Reading files that anybody may have put there, and writing to a disk that may be full, read-only or without power."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adalin.runs._paths import shown_path

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class RunFolderError(RuntimeError):
    """A run's folder cannot be used: in use, not writable, full, or damaged."""


class FileMissingError(RunFolderError):
    """There is no such file."""


def check_writable(folder: Path, needed_bytes: int) -> None:
    """Raises RunFolderError, before a run starts, if a folder (that need not exist) cannot take this many bytes."""
    with plain_disk_errors(folder):
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir():
            raise RunFolderError(f"{shown_path(existing)} is a file, and the runs need a folder; choose another one")
        # Asking for permissions is not enough: root has them on a read-only disk too.
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
    if free < needed_bytes:
        raise RunFolderError(
            f"the disk of {shown_path(folder)} has {free / 1e6:,.1f} MB free and the run needs "
            f"{needed_bytes / 1e6:,.1f} MB; make room or choose another folder"
        )


def open_regular(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a file; OSError for what is none, such as a pipe or a device, which might never end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is not a regular file")
    return descriptor


@contextmanager
def plain_read_errors(path: str | Path, error_class: type[RunFolderError] = RunFolderError) -> Iterator[None]:
    """Turns what the system refuses to read into one line; FileMissingError if there is no such file."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissingError(f"cannot read {shown_path(path)}: {error.strerror}") from error
    except OSError as error:
        raise error_class(f"cannot read {shown_path(path)}: {_reason(error)}") from error


def read_file(path: str | Path, most_bytes: int) -> bytes:
    """The content of a regular file of at most so many bytes; RunFolderError in one line for anything else."""
    with plain_read_errors(path):
        descriptor = open_regular(path)
        try:
            size = os.fstat(descriptor).st_size
            if size > most_bytes:
                raise OSError(f"it has {size:,} bytes, and no such file has more than {most_bytes:,}")
            return read_bytes(descriptor, size)
        finally:
            os.close(descriptor)


def read_bytes(descriptor: int, count: int) -> bytes:
    """So many bytes from where the descriptor is, or fewer if the file ends before."""
    data = os.read(descriptor, count)
    if len(data) == count:
        return data
    parts = [data]
    while part := os.read(descriptor, count - sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def write_atomically(path: Path, data: bytes, *, temporary: Path) -> None:
    """Replaces a file so that whoever looks, even after a crash, finds the old content or the new, never a mixture.

    What is at the temporary path is deleted, and never written to: it may be a link to somebody's file.
    """
    try:
        descriptor = os.open(temporary, _NEW_FILE, 0o666)
    except FileExistsError:
        temporary.unlink()
        descriptor = os.open(temporary, _NEW_FILE, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
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
        in_the_way = error.errno in (None, errno.ELOOP, errno.EISDIR)
        hint = "move it away" if in_the_way else "make room or permit writing there"
        raise error_class(
            f"cannot write to {shown_path(path)}: {_reason(error)}; {hint}, then start the same command again"
        ) from error


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link"
    return error.strerror or " ".join(str(error).split()) or type(error).__name__
