"""Loading a data set from disk. Nothing is loaded whose content is not exactly the official one."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from adalin.data._catalogue import Entry, entry_of
from adalin.data._dataset import DataError, Dataset, Parts, content_hash
from adalin.data._digits import SHA256, SOURCE, digits_path, read_digits
from adalin.data._files import find, opened
from adalin.data._where import BUNDLED, CACHE, choose_folder


@dataclass(frozen=True)
class Report:
    """Files whose content has been checked."""

    name: str
    source: str
    bundled: bool
    files: tuple[Path, ...]
    sha256: str

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

    Examples:
        >>> from adalin.data import load
        >>> digits = load("mnist")
        >>> digits.train_images.dtype, digits.train_images.shape[1:]
        (torch.uint8, torch.Size([1, 28, 28]))
    """
    return _load(name, folder)[0]


def verify(name: str, folder: str | Path | None = None) -> Report:
    """Load a data set and say which files it came from."""
    dataset, files = _load(name, folder)
    return Report(name, dataset.source, dataset.bundled, files, dataset.sha256)


def _load(name: str, folder: str | Path | None) -> tuple[Dataset, tuple[Path, ...]]:
    entry = entry_of(name)
    path, chosen_by = choose_folder(folder)
    if str(path) == BUNDLED:
        if name != "mnist":
            raise DataError(f"no {entry.title} is bundled, MNIST's digits only; name its folder with --data FOLDER")
        return _bundled(entry)
    try:
        files = find(entry.format.candidates(path))
        if files:
            parts = entry.format.read(files)
            _check(entry, files, parts)
            return _dataset(name, entry.title, parts, entry.classes, entry.sha256), files
        if name == "mnist" and chosen_by == CACHE:
            return _bundled(entry)
        raise DataError(_absence(entry, path))
    except (DataError, OSError) as error:
        here = f" --data {shlex.quote(str(folder))}" if folder is not None else ""
        fix = f"run `adalin data fetch {name}{here}` or name another folder with --data FOLDER"
        raise DataError(f"{error}; {fix}") from error


def _bundled(entry: Entry) -> tuple[Dataset, tuple[Path, ...]]:
    path = digits_path()
    return _dataset("mnist", SOURCE, read_digits(path), entry.classes, SHA256, bundled=True), (path,)


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
