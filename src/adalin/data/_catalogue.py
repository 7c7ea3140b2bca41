"""The data sets that are known, with what their content has to be."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from adalin._registry import Registry, UnknownNameError
from adalin.data._cifar import Cifar
from adalin.data._dataset import DataError, Parts
from adalin.data._files import Candidate, File
from adalin.data._mnist import Mnist


class Format(Protocol):
    """Places of a data set's files, and the way they are read."""

    @property
    def files(self) -> tuple[File, ...]: ...
    def candidates(self, folder: Path) -> Iterator[Candidate]: ...
    def read(self, paths: Sequence[Path]) -> Parts: ...


@dataclass(frozen=True)
class Entry:
    """A data set that is known."""

    title: str
    summary: str
    classes: int
    sha256: str
    """Hash of the decoded content, as in `Dataset`."""
    format: Format
    downloads: Mapping[str, str]
    """Published MD5 of each file that fetch gets, by its path below the data folder."""
    pickles: tuple[str, ...] = ()
    """Names that are there if only torchvision's version is."""


def datasets() -> Mapping[str, str]:
    """The data sets by name, each with a line about it."""
    return {name: entry.summary for name, entry in CATALOGUE.listing().items()}


def entry_of(name: str) -> Entry:
    """The entry of a name; raises `DataError`."""
    try:
        return CATALOGUE.get(name)
    except UnknownNameError as error:
        raise DataError(str(error)) from None


_ENTRIES = {
    "mnist": Entry(
        title="MNIST",
        summary="60,000 + 10,000 handwritten digits, 28 x 28, 10 classes; 5,000 of them are bundled",
        classes=10,
        sha256="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
        format=Mnist(
            (
                File("train-images-idx3-ubyte", 60_000, "6bbc9ace898e44ae57da46a324031adb"),
                File("train-labels-idx1-ubyte", 60_000, "a25bea736e30d166cdddb491f175f624"),
                File("t10k-images-idx3-ubyte", 10_000, "2646ac647ad5339dbf082846283269ea"),
                File("t10k-labels-idx1-ubyte", 10_000, "27ae3e4e09519cfbb04c329615203637"),
            )
        ),
        downloads={
            "mnist/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "mnist/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "mnist/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "mnist/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "cifar10": Entry(
        title="CIFAR-10",
        summary="50,000 + 10,000 colour photographs, 32 x 32, 10 classes",
        classes=10,
        sha256="32e5966899bde482c0ef7d076bf69809b4b1488c806f657a814cfca4646ec493",
        format=Cifar(
            archive="cifar-10-binary.tar.gz",
            folder="cifar-10-batches-bin",
            train=(
                File("data_batch_1.bin", 10_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
                File("data_batch_2.bin", 10_000, "5ea93a67294ea407fff1d09f752e9692"),
                File("data_batch_3.bin", 10_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
                File("data_batch_4.bin", 10_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
                File("data_batch_5.bin", 10_000, "53f37980c15c3d472c316c40844f3f0d"),
            ),
            test=(File("test_batch.bin", 10_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),),
            label_bytes=1,
        ),
        downloads={"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        pickles=("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    ),
    "cifar100": Entry(
        title="CIFAR-100",
        summary="50,000 + 10,000 colour photographs, 32 x 32, 100 classes (the fine labels)",
        classes=100,
        sha256="b41e29387b788506ced6a48cea527c65d6387e1598add60c84d6995abf0b21fa",
        format=Cifar(
            archive="cifar-100-binary.tar.gz",
            folder="cifar-100-binary",
            train=(File("train.bin", 50_000, "6172c7755cfe09b2fe270c85cebc1b15"),),
            test=(File("test.bin", 10_000, "4499cfba6c016c1be1438163640a0898"),),
            label_bytes=2,
        ),
        downloads={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
        pickles=("cifar-100-python", "cifar-100-python.tar.gz"),
    ),
}

CATALOGUE: Registry[Entry] = Registry("data set", _ENTRIES, plugins=False)
