from typing import ClassVar

import torch
from torch import Tensor

from adalin._seeds import generator
from adalin.data import Dataset
from adalin.streams._stream import Scaling, Task, image_shape


class ShuffledLabel:
    """A fixed class-balanced subset; every task, the first too, renames the classes by its own permutation."""

    same_inputs: ClassVar[bool] = True

    def __init__(self, dataset: Dataset, *, seed: int, images: int, scaling: str) -> None:
        scale = Scaling(dataset.name, scaling)
        chosen = balanced(dataset.train_labels, images, dataset.classes, generator(seed, "images"))
        self.shape, self.classes, self._seed = image_shape(dataset), dataset.classes, seed
        self._inputs, self._labels = scale(dataset.train_images[chosen]), dataset.train_labels[chosen]
        self._scale, self._test, self._test_labels = scale, dataset.test_images, dataset.test_labels

    def task(self, index: int) -> Task:
        renamed = torch.randperm(self.classes, generator=generator(self._seed, "labels", index))
        test = self._test, renamed[self._test_labels]
        return Task(self._inputs, renamed[self._labels], lambda: test, self._scale)


def balanced(labels: Tensor, count: int, classes: int, draw: torch.Generator) -> Tensor:
    """Indices of `count` random images, equally many of each class up to one."""
    order = torch.randperm(len(labels), generator=draw)
    shuffled = labels[order]
    chosen = []
    for label in range(classes):
        wanted = count // classes + (label < count % classes)
        chosen.append(order[shuffled == label][:wanted])
    return torch.cat(chosen)
