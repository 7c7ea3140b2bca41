"""Files on disk: which of the known layouts is there, and reading one so that whatever is wrong with it names it."""

import gzip
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from adalin.data._dataset import Bytes, DataError

Candidate = Sequence[Sequence[Path]]
"""One layout of a data set: for each of its files, the paths it may have there, the usual one last."""


@dataclass(frozen=True)
class File:
    """An official file, uncompressed."""

    name: str
    records: int
    md5: str


def find(candidates: Iterable[Candidate]) -> tuple[Path, ...]:
    """The files of the first candidate that is complete, or nothing; an error if there is only an incomplete one."""
    missing: Path | None = None
    for candidate in candidates:
        found = [next((path for path in paths if path.is_file()), None) for paths in candidate]
        if None not in found:
            return tuple(path for path in found if path)
        if missing is None and any(found):
            missing = candidate[found.index(None)][-1]
    if missing is not None:
        raise DataError(f"{missing} is missing beside files that belong to it")
    return ()


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """The content of a file, unzipped if it is gzip by its first bytes, whatever its name."""
    try:
        with path.open("rb") as file:
            start = file.peek(16)[:16]
            if not start:
                raise DataError(f"{path} is empty")
            if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
                raise DataError(f"{path} is a web page, not data")
            if start.startswith(b"\x1f\x8b"):
                with gzip.open(file) as unzipped:
                    yield unzipped
            else:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def fill(array: Bytes, stream: BufferedIOBase, name: object) -> None:
    """Read as many bytes as the array has."""
    if stream.readinto(array.data.cast("B")) < array.nbytes:
        raise DataError(f"{name} is truncated")


def expect_end(stream: BufferedIOBase, name: object) -> None:
    if stream.read(1):
        raise DataError(f"{name} is longer than the official file")
