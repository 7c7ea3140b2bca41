"""Tiny data sets made by a formula: the same on every machine, with no two images alike."""

import hashlib
from functools import cache

import torch
from torch import Tensor

from adalin.data import Dataset

FORMS = {"mnist": ((1, 6, 6), 10), "cifar10": ((3, 4, 4), 10), "cifar100": ((3, 4, 4), 100)}
"""Shape of an image, and classes, of a small stand-in for each data set."""


@cache
def synthetic(
    name: str,
    *,
    shape: tuple[int, int, int] | None = None,
    classes: int | None = None,
    per_class: int = 4,
    test_per_class: int = 2,
) -> Dataset:
    """A stand-in for a data set: its name, and images of the given form in no order of classes."""
    shape, classes = shape or FORMS[name][0], classes or FORMS[name][1]
    train = _part(per_class * classes, shape, classes, first=0)
    test = _part(test_per_class * classes, shape, classes, first=per_class * classes)
    digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in (*train, *test))).hexdigest()
    return Dataset(name, f"a synthetic {name}", False, *train, *test, classes, digest)


def _part(count: int, shape: tuple[int, int, int], classes: int, first: int) -> tuple[Tensor, Tensor]:
    number = torch.arange(first, first + count)
    pixel = torch.arange(torch.Size(shape).numel())
    images = (number[:, None] * (41 + 2 * pixel) + pixel * (pixel + 13) + number[:, None] // 64) % 256
    # 7 has no divisor in common with 10 or 100, so every class comes equally often.
    return images.to(torch.uint8).view(count, *shape), (7 * number + 3) % classes
