"""Learnable interpolation between a base and the identity (the paper's appendix "Interpolation isn't enough")."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from adalin.nn._bases import Base, as_base
from adalin.nn._per_neuron import Init, PerNeuron


class Interpolation(PerNeuron):
    """f(x) = s * x + (1 - s) * phi(x), s = sigmoid(alpha), one learnable alpha per neuron.

    The alpha-linearization of Lewandowski et al. 2024 with a learned alpha. The arguments are those of `AdaLin`, but
    for the gate and its Lipschitz constant.

    Examples:
        >>> import torch
        >>> from adalin import Interpolation
        >>> Interpolation("relu", 2, init=0.0)(torch.tensor([[-1.0, 1.0]])).detach()
        tensor([[-0.5000,  1.0000]])
    """

    def __init__(
        self,
        base: str | type[nn.Module] | Callable[[Tensor], Tensor] | Base = "relu",
        num_parameters: int | None = None,
        *,
        dim: int | None = None,
        init: Init | None = None,
        alpha: nn.Parameter | None = None,
        inplace: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_parameters, dim=dim, init=init, alpha=alpha, device=device, dtype=dtype)
        self.base = as_base(base, lipschitz=1.0)  # any: without a gate it plays no part

    def forward(self, input: Tensor) -> Tensor:
        share = torch.sigmoid(self.alpha_like(input)).to(input.dtype)
        return torch.lerp(self.base.phi(input), input, share)

    def extra_repr(self) -> str:
        return f"{self.base.name}, {super().extra_repr()}"
