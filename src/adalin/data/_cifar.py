"""CIFAR's binary version: records of one or two label bytes and 3 x 32 x 32 pixels, in files or in the archive."""

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path, PurePosixPath

import numpy as np

from adalin.data._dataset import Bytes, DataError, Parts
from adalin.data._files import Candidate, File, expect_end, fill, opened

CHUNK = 1000  # records read at a time: 3 MB beside the arrays

Slots = dict[str, tuple[Bytes, Bytes]]
"""Where the images and labels of each file go."""


@dataclass(frozen=True)
class Cifar:
    """Files and the archive they come in."""

    archive: str
    folder: str
    train: tuple[File, ...]
    test: tuple[File, ...]
    label_bytes: int
    """Labels per record. The last is used: CIFAR-100's records start with the coarse label, then the fine one."""

    @property
    def files(self) -> tuple[File, ...]:
        return self.train + self.test

    def candidates(self, folder: Path) -> Iterator[Candidate]:
        yield [[folder / self.archive]]
        for place in (folder / self.folder, folder):
            yield [[place / file.name] for file in self.files]

    def read(self, paths: Sequence[Path]) -> Parts:
        slots: Slots = {}
        parts = *_allocate(self.train, slots), *_allocate(self.test, slots)
        for path in paths:
            with opened(path) as stream:
                if path.name == self.archive:
                    self._read_archive(path, stream, slots)
                else:
                    self._read_records(stream, slots.pop(path.name), path)
        return parts

    def _read_archive(self, path: Path, stream: BufferedIOBase, slots: Slots) -> None:
        # As a stream: the members are not in order, and going back means unzipping from the start.
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                content = archive.extractfile(member) if name in slots else None
                if isinstance(content, BufferedIOBase):  # not a folder of that name
                    self._read_records(content, slots.pop(name), f"{name} in {path}")
        if slots:
            raise DataError(f"{path} lacks {', '.join(slots)}")

    def _read_records(self, stream: BufferedIOBase, slot: tuple[Bytes, Bytes], name: object) -> None:
        images, labels = slot
        buffer = np.empty((CHUNK, self.label_bytes + images[0].size), np.uint8)
        for start in range(0, len(labels), CHUNK):
            chunk = slice(start, start + CHUNK)
            records = buffer[: len(labels[chunk])]
            fill(records, stream, name)
            labels[chunk] = records[:, self.label_bytes - 1]
            images[chunk] = records[:, self.label_bytes :].reshape(images[chunk].shape)
        expect_end(stream, name)


def _allocate(files: Sequence[File], slots: Slots) -> tuple[Bytes, Bytes]:
    """Images and labels of all files together; adds to the slots which stretch is whose."""
    records = sum(file.records for file in files)
    images, labels = np.empty((records, 3, 32, 32), np.uint8), np.empty(records, np.uint8)
    start = 0
    for file in files:
        stretch = slice(start, start + file.records)
        slots[file.name] = images[stretch], labels[stretch]
        start += file.records
    return images, labels
