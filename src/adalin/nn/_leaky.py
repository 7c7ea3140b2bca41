"""Relatives of the leaky ReLU: a smooth one, and one that drops intervals at random."""

import torch
from torch import Tensor, nn


class SmoothLeaky(nn.Module):
    """slope x + (1 - slope) x sigmoid(sharpness x / width): a leaky ReLU without a kink (Lillo & Cheney 2026)."""

    is_activation = True

    def __init__(self, slope: float = 0.1, sharpness: float = 5.0, width: float = 3.0) -> None:
        super().__init__()
        if not width > 0:
            raise ValueError(f"the width of a smooth leaky ReLU must be a number > 0, not {width}")
        self.slope, self.sharpness, self.width = slope, sharpness, width

    def forward(self, input: Tensor) -> Tensor:
        return self.slope * input + (1 - self.slope) * input * torch.sigmoid(self.sharpness / self.width * input)

    def extra_repr(self) -> str:
        return f"slope={self.slope}, sharpness={self.sharpness}, width={self.width}"


class IntervalDropout(nn.Module):
    """AID (Park et al. 2025): each number passes relu(x) with probability p, else -relu(-x).

    In evaluation it gives what it gives on average: p x above 0, (1 - p) x below.
    """

    is_activation = True

    def __init__(self, p: float = 0.9) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"the p of aid must be a number from 0 to 1, not {p}")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return torch.where(input >= 0, self.p * input, (1 - self.p) * input)
        passes = torch.rand_like(input) < self.p
        return torch.where(passes == (input >= 0), input, 0.0)

    def extra_repr(self) -> str:
        return f"p={self.p}"
