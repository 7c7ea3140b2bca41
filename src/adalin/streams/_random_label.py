from typing import ClassVar

import torch

from adalin._seeds import generator
from adalin.data import Dataset
from adalin.streams._stream import Scaling, Task, image_shape


class RandomLabel:
    """A fixed random subset of the images; in every task each image gets a label drawn uniformly. No test set."""

    same_inputs: ClassVar[bool] = True

    def __init__(self, dataset: Dataset, *, seed: int, images: int, scaling: str) -> None:
        scale = Scaling(dataset.name, scaling)
        chosen = torch.randperm(len(dataset.train_images), generator=generator(seed, "images"))[:images]
        self.shape, self.classes, self._seed = image_shape(dataset), dataset.classes, seed
        self._inputs = scale(dataset.train_images[chosen])

    def task(self, index: int) -> Task:
        draw = generator(self._seed, "labels", index)
        return Task(self._inputs, torch.randint(self.classes, (len(self._inputs),), generator=draw))
