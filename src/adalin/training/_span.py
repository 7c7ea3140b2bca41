"""Rotation of inputs into the space that they span.

1,200 images of CIFAR-10 span 1,200 of 3,072 dimensions. With an orthonormal basis V of their span, a first layer that
sees xV instead of x, from V'W instead of W, is the same layer with less work: the part of W outside the span never gets
a gradient. It is kept, and scaled by whatever scales all weights, so that the full matrix can be had back.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MULTIPLE = 32
"""Ranks are padded to a multiple of this, so that runs whose images differ a little in rank can be stacked."""


@dataclass(frozen=True, eq=False)
class Span:
    basis: Tensor
    """(features, coordinates), float64, orthonormal columns but for the padding."""

    @classmethod
    def of(cls, inputs: Tensor) -> "Span | None":
        """The span of (images, features), or None where it would save less than a tenth of the work."""
        images, features = inputs.shape
        # Pixels that are the same in all images, as MNIST's corners, span one dimension together.
        varying = int((inputs != inputs[0]).any(0).sum())
        if min(images, varying + 1) > 0.9 * features:
            return None
        if images <= varying:
            return cls(torch.linalg.qr(inputs.T.double())[0])
        _, singular, right = torch.linalg.svd(inputs.double(), full_matrices=False)
        basis = right[singular > singular[0] * 1e-12].T
        width = -(-basis.shape[1] // MULTIPLE) * MULTIPLE
        return None if width > 0.9 * features else cls(F.pad(basis, (0, width - basis.shape[1])))

    def coordinates(self, inputs: Tensor) -> Tensor:
        return (inputs.double() @ self.basis).to(inputs.dtype)

    def inside(self, weight: Tensor) -> Tensor:
        """(features, units) -> (coordinates, units)."""
        return (self.basis.T @ weight.double()).to(weight.dtype)

    def outside(self, weight: Tensor) -> Tensor:
        """What of the weight no input ever sees: (features, units)."""
        full = weight.double()
        return (full - self.basis @ (self.basis.T @ full)).to(weight.dtype)

    def restored(self, inside: Tensor, outside: Tensor) -> Tensor:
        return (self.basis @ inside.double() + outside.double()).to(inside.dtype)
