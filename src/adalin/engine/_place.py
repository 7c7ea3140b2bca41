"""Where a parameter is in flat tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.native import padded


@dataclass(frozen=True)
class Place:
    """Where a parameter is in a flat tensor: as a matrix (inputs, outputs), or as one row.

    The inputs of a convolution's unit are (height, width, channels) of the kernel.
    """

    part: int
    offset: int
    shape: torch.Size

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return self.shape[0] if len(self.shape) > 1 else self.shape.numel()

    @property
    def rows(self) -> int:
        """Rows."""
        return self.shape.numel() // self.columns

    @property
    def stride(self) -> int:
        """Distance between rows: padding follows each."""
        return padded(self.columns)

    @property
    def end(self) -> int:
        """Offset of what follows."""
        return self.offset + self.rows * self.stride

    def of(self, values: Sequence[Tensor]) -> Tensor:
        """The parameter's numbers in tensors with the layout of the network's parts, in torch's layout."""
        own = values[self.part][self.offset : self.end]
        matrix = own.view(self.rows, self.stride)[:, : self.columns]
        if len(self.shape) == 4:
            _, channels, height, width = self.shape
            return matrix.unflatten(0, (height, width, channels)).permute(3, 2, 0, 1)
        return matrix.T if len(self.shape) == 2 else matrix.view(self.shape)
