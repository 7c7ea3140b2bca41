"""Loading a data set from disk. Nothing is loaded whose content is not exactly the official one."""

import hashlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from adalin.data._catalogue import Entry, entry_of
from adalin.data._dataset import DataError, Dataset, Parts, content_hash
from adalin.data._digits import DIGITS_SHA256, SOURCE, digits_path, read_digits
from adalin.data._files import find, opened
from adalin.data._where import BUNDLED, CACHE, choose_folder

Files = tuple[Path, ...]
Read = Callable[[str, Files, bool], Dataset]
"""(name, files, whether these are the bundled digits) -> the data set."""


@dataclass(frozen=True)
class CheckedFiles:
    """Files whose content has been checked."""

    name: str
    """Name of the data set."""
    source: str
    """Title for people."""
    bundled: bool
    """Whether these are the digits that come with the package in place of MNIST."""
    files: Files
    """Files that were read."""
    sha256: str
    """Hash of the content, as in `Dataset`."""

    @property
    def folder(self) -> Path:
        """The folder of the first file."""
        return self.files[0].parent

    def __str__(self) -> str:
        names = ", ".join(file.name for file in self.files)
        return f"{self.source}: {names} in {self.folder}, content right (SHA-256 {self.sha256})"


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """A data set from the folder given, else from $ADALIN_DATA, else from the user's cache; never from the network.

    Without any of the files of MNIST in the cache, `load("mnist")` gives the bundled digits; `load("mnist", BUNDLED)`
    always does. A folder that somebody named has to have what is asked for.

    The last data set stays in memory and is given again, the same tensors, until another one is asked for or one of its
    files has another size or time of change: it is read and hashed once in a process. Its tensors are to be left as
    they are.

    Examples:
        >>> from adalin.data import load
        >>> digits = load("mnist")
        >>> digits.train_images.dtype, digits.train_images.shape[1:]
        (torch.uint8, torch.Size([1, 28, 28]))
    """
    return _load(name, folder, _kept)[0]


def verify(name: str, folder: str | Path | None = None) -> CheckedFiles:
    """Read a data set anew and say which files it came from."""
    dataset, files = _load(name, folder, _read)
    return CheckedFiles(name, dataset.source, dataset.bundled, files, dataset.sha256)


def _load(name: str, folder: str | Path | None, read: Read) -> tuple[Dataset, Files]:
    entry = entry_of(name)
    path, chosen_by = choose_folder(folder)
    if str(path) == BUNDLED:
        if name != "mnist":
            raise DataError(f"no {entry.title} is bundled, MNIST's digits only; name its folder with --data FOLDER")
        return read(name, (digits_path(),), True), (digits_path(),)
    try:
        files = find(entry.format.candidates(path))
        bundled = not files and name == "mnist" and chosen_by == CACHE
        if bundled:
            files = (digits_path(),)
        if not files:
            raise DataError(_absence(entry, path))
        return read(name, files, bundled), files
    except (DataError, OSError) as error:
        here = f" --data {shlex.quote(str(folder))}" if folder is not None else ""
        fix = f"run `adalin data fetch {name}{here}` or name another folder with --data FOLDER"
        raise DataError(f"{error}; {fix}") from error


def _read(name: str, files: Files, bundled: bool) -> Dataset:
    entry = entry_of(name)
    if bundled:
        return _dataset(name, SOURCE, read_digits(files[0]), entry.classes, DIGITS_SHA256, bundled=True)
    parts = entry.format.read(files)
    _check(entry, files, parts)
    return _dataset(name, entry.title, parts, entry.classes, entry.sha256)


def _kept(name: str, files: Files, bundled: bool) -> Dataset:
    """As `_read`; the last one again while its files are the same."""
    return _read_once(name, files, bundled, tuple(map(_stamp, files)))


@lru_cache(maxsize=1)
def _read_once(name: str, files: Files, bundled: bool, stamps: object) -> Dataset:
    return _read(name, files, bundled)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Size and time of change of a file; None for one that cannot be looked at, which reading it reports."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _check(entry: Entry, files: Sequence[Path], parts: Parts) -> None:
    if content_hash(parts) == entry.sha256:
        return
    wrong = files[:1]
    if len(files) == len(entry.format.files):  # not the archive: one of them, or a few, and we can tell which
        pairs = zip(files, entry.format.files, strict=True)
        wrong = [path for path, file in pairs if _md5(path) != file.md5] or files
    raise DataError(f"{', '.join(map(str, wrong))}: the content is not {entry.title}'s (SHA-256 differs)")


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with opened(path) as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def _absence(entry: Entry, folder: Path) -> str:
    if not folder.is_dir():
        return f"no {entry.title}: there is no folder {folder}"
    for pickles in entry.pickles:
        if (folder / pickles).exists():
            return f"{folder / pickles} holds pickles, which can run code; only the binary version is read"
    return f"no {entry.title} in {folder}"


def _dataset(name: str, source: str, parts: Parts, classes: int, sha256: str, *, bundled: bool = False) -> Dataset:
    images, labels, test_images, test_labels = map(torch.from_numpy, parts)
    return Dataset(name, source, bundled, images, labels.long(), test_images, test_labels.long(), classes, sha256)
