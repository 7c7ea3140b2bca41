"""MNIST's four files in IDX format: a magic number, the sizes as big-endian integers, the bytes."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adalin.data._dataset import Bytes, DataError, Parts
from adalin.data._files import Candidate, File, expect_end, fill, opened

PLACES = ("mnist", ".", "MNIST/raw")  # the last is torchvision's


@dataclass(frozen=True)
class Mnist:
    """The files of training images, training labels, test images and test labels."""

    files: tuple[File, File, File, File]

    def candidates(self, folder: Path) -> Iterator[Candidate]:
        # What fetch writes comes first, here and for CIFAR: so fetching always replaces a damaged copy.
        for place in PLACES:
            yield [[folder / place / name for name in _spellings(file.name)] for file in self.files]

    def read(self, paths: Sequence[Path]) -> Parts:
        images, labels, test_images, test_labels = (
            _read_idx(path, (file.records, 28, 28) if "images" in file.name else (file.records,))
            for path, file in zip(paths, self.files, strict=True)
        )
        return images[:, None], labels, test_images[:, None], test_labels


def _spellings(name: str) -> list[str]:
    dotted = name.replace("-idx", ".idx")
    return [f"{name}.gz", f"{dotted}.gz", dotted, name]


def _read_idx(path: Path, shape: tuple[int, ...]) -> Bytes:
    magic, sizes = bytes((0, 0, 8, len(shape))), struct.pack(f">{len(shape)}I", *shape)
    with opened(path) as stream:
        start = stream.read(4)
        if start != magic:
            raise DataError(f"{path} is no such IDX file: it starts with 0x{start.hex()}, not 0x{magic.hex()}")
        # Checked before anything is allocated by it.
        if stream.read(len(sizes)) != sizes:
            raise DataError(f"{path} does not announce {' x '.join(map(str, shape))} bytes")
        array = np.empty(shape, np.uint8)
        fill(array, stream, path)
        expect_end(stream, path)
    return array
