"""A first layer that knows its outputs instead of its weights.

SGD adds combinations of inputs to the weights of a first layer: W = W0 + X'C. Where a stream never changes its images
X, their outputs Z = XW are all that training needs of W: a step that adds X'D to W adds XX'D to Z. So the forward pass
is a look-up, and the update a product as wide as there are images, where there were two as wide as an image: a fifth of
the work for 1,200 images of CIFAR-10. C, from which weights are made when somebody asks for them, is a sum.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MOST_IMAGES = 4_000
"""Their products take 64 MB; those of many more would not stay in any cache."""


@dataclass(frozen=True, eq=False)
class Gram:
    """A stream's inputs and their products with each other, by which a first layer is trained."""

    inputs: Tensor
    """All images, (images, features)."""
    products: Tensor
    """Products of every image with every other, (images, images)."""

    @classmethod
    def of(cls, inputs: Tensor) -> "Gram | None":
        """Multiply inputs; None where that would save less than a fifth of the work, or take too much memory."""
        images, features = inputs.shape
        if images > min(0.8 * 2 * features, MOST_IMAGES):
            return None
        exact = inputs.double()
        return cls(inputs, (exact @ exact.T).to(inputs.dtype))

    def outputs(self, weight: Tensor) -> Tensor:
        """Outputs of a first layer with these weights: (features, units) -> (images, units)."""
        return self.inputs @ weight

    def weight(self, start: Tensor, combination: Tensor) -> Tensor:
        """Weights plus a combination of inputs: (features, units), (images, units) -> (features, units)."""
        return torch.addmm(start, self.inputs.T, combination)
