from typing import ClassVar

import torch
from torch import Tensor

from adalin._seeds import generator
from adalin.data import Dataset
from adalin.streams._stream import Scaling, Task, image_shape

CLASSES_PER_TASK = 5


class ClassSplit:
    """Five new classes per task, in a random order of the classes, with all outputs of the network in play."""

    same_inputs: ClassVar[bool] = False

    def __init__(self, dataset: Dataset, *, seed: int, images: int, scaling: str) -> None:
        self._scale = Scaling(dataset.name, scaling)
        self.shape, self.classes = image_shape(dataset), dataset.classes
        self._dataset, split = dataset, CLASSES_PER_TASK
        self._per_class = [images // split + (place < images % split) for place in range(split)]
        available = split * int(dataset.train_labels.bincount(minlength=dataset.classes).min())
        if images > available:
            raise ValueError(f"images={images}, but {split} classes of {dataset.source} have {available} for training")
        self._order = torch.randperm(dataset.classes, generator=generator(seed, "classes"))

    def task(self, index: int) -> Task:
        data, classes = self._dataset, self._new_classes(index)
        chosen = places(data.train_labels, classes, self._per_class)

        def test() -> tuple[Tensor, Tensor]:
            tested = places(data.test_labels, classes, [len(data.test_labels)] * CLASSES_PER_TASK)
            return data.test_images[tested], data.test_labels[tested]

        return Task(self._scale(data.train_images[chosen]), data.train_labels[chosen], test, self._scale)

    def _new_classes(self, index: int) -> Tensor:
        classes = self._order[index * CLASSES_PER_TASK : (index + 1) * CLASSES_PER_TASK]
        if len(classes) < CLASSES_PER_TASK:
            raise ValueError(
                f"there are classes for {self.classes // CLASSES_PER_TASK} tasks only, not for task {index}"
            )
        return classes


def places(labels: Tensor, classes: Tensor, counts: list[int]) -> Tensor:
    """Indices of the first so many images of each class."""
    pairs = zip(classes, counts, strict=True)
    return torch.cat([(labels == label).nonzero().flatten()[:count] for label, count in pairs])
