"""What a stream is: tasks, one after the other, each with its own inputs or labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from adalin.data import Dataset


@dataclass(frozen=True)
class Task:
    """The data of one task, in memory."""

    inputs: Tensor
    """(images, ...), float32 unless `scale` makes it so."""
    labels: Tensor
    """int64 (images,)."""
    test: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Test inputs and labels, made when the task is over (they are often larger than what is trained on)."""
    scale: Callable[[Tensor], Tensor] | None = None
    """What makes floats of inputs that are pixels, as large data sets should be kept."""
    validation: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Inputs and labels that are neither trained on nor tested with, where there are some."""

    def floats(self, inputs: Tensor) -> Tensor:
        """Some of the inputs, as the network gets them."""
        return inputs if self.scale is None else self.scale(inputs)


class Stream(Protocol):
    """The tasks of one run. The same index always gives the same task."""

    shape: tuple[int, ...]
    """Of one input."""
    classes: int
    """Outputs of the network."""
    same_inputs: ClassVar[bool]
    """Whether every task has the same inputs (and only other labels)."""

    def task(self, index: int) -> Task:
        """The task of an index, from 0."""
        ...


KUMAR = {
    "mnist": ((0.5,), (0.5,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
"""Mean and deviation per channel, for inputs scaled as in Kumar et al. 2023."""

SCALINGS = ("unit", "kumar2023")
"""How pixels become inputs: [0, 1], or standardised as in Kumar et al. 2023."""


@dataclass(frozen=True)
class Scaling:
    """Pixels to floats: "unit" is [0, 1], "kumar2023" standardises a data set as that paper does."""

    dataset: str
    name: str

    def __call__(self, pixels: Tensor) -> Tensor:
        images = pixels.to(torch.float32).div_(255)
        if self.name == "kumar2023":
            mean, deviation = (
                torch.tensor(values, device=images.device)[:, None, None] for values in KUMAR[self.dataset]
            )
            images.sub_(mean).div_(deviation)
        return images


def image_shape(dataset: Dataset) -> tuple[int, ...]:
    return tuple(dataset.train_images.shape[1:])
