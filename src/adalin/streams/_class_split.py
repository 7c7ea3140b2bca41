from typing import ClassVar

import torch
from torch import Tensor

from adalin._seeds import generator
from adalin.data import Dataset
from adalin.streams._stream import Images, Task

CLASSES_PER_TASK = 5


class ClassSplit:
    """Five new classes per task, in a random order of the classes, with all outputs of the network in play."""

    same_inputs: ClassVar[bool] = False

    def __init__(self, dataset: Dataset, *, seed: int, images: int, scaling: str) -> None:
        self._scale = Images(dataset, scaling)
        self.shape, self.classes = self._scale.shape, dataset.classes
        self._dataset, self._per_class = dataset, images // CLASSES_PER_TASK
        self._order = torch.randperm(dataset.classes, generator=generator(seed, "classes"))

    def task(self, index: int) -> Task:
        classes = self._order[index * CLASSES_PER_TASK : (index + 1) * CLASSES_PER_TASK]
        if len(classes) < CLASSES_PER_TASK:
            raise ValueError(
                f"there are classes for {self.classes // CLASSES_PER_TASK} tasks only, not for task {index}"
            )
        data = self._dataset
        inputs, labels = self._of(data.train_images, data.train_labels, classes, self._per_class)
        return Task(
            inputs, labels, lambda: self._of(data.test_images, data.test_labels, classes, len(data.test_labels))
        )

    def _of(self, images: Tensor, labels: Tensor, classes: Tensor, per_class: int) -> tuple[Tensor, Tensor]:
        chosen = torch.cat([(labels == label).nonzero().flatten()[:per_class] for label in classes])
        return self._scale(images[chosen]), labels[chosen]
