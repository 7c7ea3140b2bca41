"""What a stream is: tasks, one after the other, each with its own inputs or labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from adalin._registry import Registry
from adalin.data import Dataset


@dataclass(frozen=True)
class Task:
    """The data of one task, in memory."""

    inputs: Tensor
    """Inputs (images, ...), float32 unless `scale` makes them so."""
    labels: Tensor
    """Classes of the inputs, int64 (images,)."""
    test: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Maker of the test inputs and labels, called when the task is over: they are often larger than the training's, and
    best left as pixels, which `scale` makes floats of in pieces."""
    scale: Callable[[Tensor], Tensor] | None = None
    """Function that makes floats of inputs that are pixels, as large data sets should be kept."""
    validation: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Maker of inputs and labels that are neither trained on nor tested with, where there are some."""

    def floats(self, inputs: Tensor) -> Tensor:
        """Some of the inputs, for training, validation or test, as the network gets them."""
        return inputs if self.scale is None or inputs.is_floating_point() else self.scale(inputs)


class Stream(Protocol):
    """The tasks of one run. The same index always gives the same task."""

    shape: tuple[int, ...]
    """Shape of one input."""
    classes: int
    """Number of the network's outputs."""
    same_inputs: ClassVar[bool]
    """True if every task has the same inputs and only other labels."""

    def task(self, index: int) -> Task:
        """The task of an index, from 0."""
        ...


KUMAR = {
    "mnist": ((0.5,), (0.5,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
"""Mean and deviation per channel of each data set, as Kumar et al. 2023 have them."""


def unit(images: Tensor, dataset: str) -> Tensor:
    """Numbers in [0, 1], as they come."""
    return images


def kumar2023(images: Tensor, dataset: str) -> Tensor:
    """Numbers standardised as Kumar et al. 2023 do it, in place."""
    mean, deviation = (torch.tensor(values, device=images.device)[:, None, None] for values in KUMAR[dataset])
    return images.sub_(mean).div_(deviation)


SCALINGS: Registry[Callable[[Tensor, str], Tensor]] = Registry(
    "scaling", {"unit": unit, "kumar2023": kumar2023}, plugins=False
)
"""How pixels become inputs, by name: what makes them of numbers in [0, 1] and the data set's name."""


@dataclass(frozen=True)
class Scaling:
    """Pixels to floats, by one of `SCALINGS`."""

    dataset: str
    """Name of the data set."""
    name: str
    """Name of the scaling."""

    def __call__(self, pixels: Tensor) -> Tensor:
        return SCALINGS.get(self.name)(pixels.to(torch.float32).div_(255), self.dataset)


def image_shape(dataset: Dataset) -> tuple[int, ...]:
    return tuple(dataset.train_images.shape[1:])
