"""Tiny data sets in the formats of the real ones, and a way to have `adalin.data` take them for the real ones."""

import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from adalin.data import _catalogue

TRAIN, TEST = 5, 3
CIFAR_FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}


@dataclass(frozen=True)
class Tiny:
    parts: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    """What loading has to give."""
    files: Mapping[str, bytes]
    """The files as they are when unpacked."""
    downloads: Mapping[str, bytes]
    """The files as hosts have them, by their path below the data folder."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(b"".join(part.tobytes() for part in self.parts)).hexdigest()


def mnist() -> Tiny:
    parts = random_parts((1, 28, 28), 10)
    images, labels, test_images, test_labels = parts
    files = {
        "train-images-idx3-ubyte": struct.pack(">4I", 0x803, TRAIN, 28, 28) + images.tobytes(),
        "train-labels-idx1-ubyte": struct.pack(">2I", 0x801, TRAIN) + labels.tobytes(),
        "t10k-images-idx3-ubyte": struct.pack(">4I", 0x803, TEST, 28, 28) + test_images.tobytes(),
        "t10k-labels-idx1-ubyte": struct.pack(">2I", 0x801, TEST) + test_labels.tobytes(),
    }
    return Tiny(parts, files, {f"mnist/{name}.gz": gzip.compress(content) for name, content in files.items()})


def cifar10() -> Tiny:
    parts = random_parts((3, 32, 32), 10)
    records = [bytes([label]) + image.tobytes() for image, label in images_and_labels(parts)]
    files = {f"data_batch_{i + 1}.bin": records[i] for i in range(TRAIN)} | {
        "test_batch.bin": b"".join(records[TRAIN:])
    }
    return Tiny(parts, files, {"cifar-10-binary.tar.gz": archive(CIFAR_FOLDERS["cifar10"], files)})


def cifar100() -> Tiny:
    parts = random_parts((3, 32, 32), 100)
    coarse = 7  # in front of the fine label
    records = [bytes([coarse, label]) + image.tobytes() for image, label in images_and_labels(parts)]
    files = {"train.bin": b"".join(records[:TRAIN]), "test.bin": b"".join(records[TRAIN:])}
    return Tiny(parts, files, {"cifar-100-binary.tar.gz": archive(CIFAR_FOLDERS["cifar100"], files)})


def random_parts(shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (TRAIN + TEST, *shape), np.uint8)
    labels = random.integers(0, classes, TRAIN + TEST, np.uint8)
    return images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:]


def images_and_labels(parts):
    return [*zip(parts[0], parts[1], strict=True), *zip(parts[2], parts[3], strict=True)]


def archive(folder: str, files: Mapping[str, bytes]) -> bytes:
    """A tar.gz with the files in another order than they are read in, and one that nobody asked for."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w:gz") as tar:
        for name, content in [("readme.html", b"<html>"), *reversed(files.items())]:
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return result.getvalue()


TINY = {"mnist": mnist(), "cifar10": cifar10(), "cifar100": cifar100()}


def take_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue with the sizes and hashes of the tiny data sets."""
    for name, tiny in TINY.items():
        entry = _catalogue.CATALOGUE.get(name)
        files = tuple(shrunk(file, tiny) for file in entry.format.files)
        parts = {"files": files} if name == "mnist" else {"train": files[:-1], "test": files[-1:]}
        downloads = {path: md5(content) for path, content in tiny.downloads.items()}
        changed = replace(entry, sha256=tiny.sha256, format=replace(entry.format, **parts), downloads=downloads)
        monkeypatch.setitem(_catalogue.CATALOGUE._entries, name, changed)


def shrunk(file, tiny: Tiny):
    records = 1 if "data_batch" in file.name else TRAIN if "train" in file.name else TEST
    return replace(file, records=records, md5=md5(tiny.files[file.name]))


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def unpacked(folder: Path, name: str) -> Path:
    """A data folder with the data set unpacked; returns the folder that its files are in."""
    return write(folder / (CIFAR_FOLDERS | {"mnist": "mnist"})[name], TINY[name].files)
