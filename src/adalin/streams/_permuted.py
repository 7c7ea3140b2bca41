from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from adalin._seeds import generator
from adalin.data import Dataset
from adalin.streams._stream import Scaling, Task, image_shape


class Permuted:
    """A fixed random subset of the images; every task, the first too, shuffles their pixels in its own way."""

    same_inputs: ClassVar[bool] = False

    def __init__(self, dataset: Dataset, *, seed: int, images: int, scaling: str) -> None:
        self._scale = Scaling(dataset.name, scaling)
        chosen = torch.randperm(len(dataset.train_images), generator=generator(seed, "images"))[:images]
        self.shape, self.classes, self._seed = image_shape(dataset), dataset.classes, seed
        self._train, self._labels = dataset.train_images[chosen], dataset.train_labels[chosen]
        self._test, self._test_labels = dataset.test_images, dataset.test_labels

    def task(self, index: int) -> Task:
        pixels = torch.Size(self.shape).numel()
        order = torch.randperm(pixels, generator=generator(self._seed, "permutation", index)).numpy()

        def permute(images: Tensor) -> Tensor:
            # While they are bytes, a quarter of the memory traffic; by numpy, which takes a quarter of torch's time.
            permuted = np.take(images.flatten(1).numpy(), order, axis=1)
            return torch.from_numpy(permuted).view(images.shape)

        inputs = self._scale(permute(self._train))
        return Task(inputs, self._labels, lambda: (permute(self._test), self._test_labels), self._scale)
