"""Activations that answer each neuron with two outputs, so that one of them is always responsive."""

import torch
from torch import Tensor, nn


class Concatenated(nn.Module):
    """Joins two responses to each neuron along `dim`."""

    expansion = 2
    """Outputs per neuron: the next layer's input is this many times as wide."""

    def __init__(self, *, dim: int = 1, inplace: bool = False) -> None:
        super().__init__()
        self.dim = dim

    def _concatenate(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.cat((first, second), dim=0 if first.dim() == 1 else self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class CReLU(Concatenated):
    """[relu(x), relu(-x)] along `dim`: twice as wide (Shang et al. 2016; Abbas et al. 2023).

    Examples:
        >>> import torch
        >>> from adalin import CReLU
        >>> CReLU()(torch.tensor([[-1.0, 2.0]]))
        tensor([[0., 2., 1., 0.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._concatenate(torch.relu(input), torch.relu(-input))


class DeepFourier(Concatenated):
    """[sin(x), cos(x)] along `dim`: twice as wide (deep Fourier features, Lewandowski et al. 2024).

    Examples:
        >>> import torch
        >>> from adalin import DeepFourier
        >>> DeepFourier()(torch.zeros(1, 2))
        tensor([[0., 0., 1., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._concatenate(torch.sin(input), torch.cos(input))
