"""AdaLin: adaptive linearity injection (Razavi Rohani et al., CoLLAs 2025, equation 2)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from adalin.nn._bases import Base, as_base
from adalin.nn._function import adalin, saturation
from adalin.nn._gates import Gate, as_gate, cosine, gate_name, linear, quadratic
from adalin.nn._per_neuron import Init, PerNeuron


class AdaLin(PerNeuron):
    """f(x) = phi(x) + alpha * x * stopgrad(g(x)), g(x) = cos(pi/2 * |phi'(x)| / L), one learnable alpha per neuron.

    Wherever phi saturates, g is close to 1 and the neuron passes alpha * x; wherever phi is steepest, g is 0 and the
    neuron is phi. With phi = ReLU this is PReLU.

    Args:
        base: phi: a name (`adalin.bases()` lists them), an `nn.Module` class or instance, or any elementwise callable.
        num_parameters: how many alphas: the layer's width, or 1 for the whole layer. Left out, it is inferred at the
            first forward, as in PyTorch's lazy modules.
        gate: "cosine", "linear" (1 - r), "quadratic" (1 - r^2), "none", or a callable of r = |phi'(x)| / L.
        dim: the axis of the neurons. By default 1, as in `nn.PReLU`; a layer that infers its width from an input with
            three axes takes the last, where transformers have their features.
        init: the first value of alpha: None for U(0, 1), as in the paper; a number; or a callable that fills a tensor,
            such as those of `torch.nn.init`.
        alpha: an `nn.Parameter` to use, for instance one that all layers of a network share.
        lipschitz: L, where the known or estimated one is not wanted. The gate is 0 wherever |phi'| exceeds it.
        inplace: accepted and ignored, so that the class fits where a library builds `activation(inplace=True)`.

    Examples:
        >>> import torch
        >>> from adalin import AdaLin
        >>> layer = AdaLin("tanh", 100)
        >>> layer(torch.randn(16, 100)).shape
        torch.Size([16, 100])
        >>> AdaLin("relu", 3, init=0.25)(torch.tensor([[-4.0, 0.0, 4.0]]))
        tensor([[-1.,  0.,  4.]], grad_fn=<_AdaLinBackward>)
    """

    def __init__(
        self,
        base: str | type[nn.Module] | Callable[[Tensor], Tensor] | Base = "relu",
        num_parameters: int | None = None,
        *,
        gate: str | Gate = "cosine",
        dim: int | None = None,
        init: Init | None = None,
        alpha: nn.Parameter | None = None,
        lipschitz: float | None = None,
        inplace: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_parameters, dim=dim, init=init, alpha=alpha, device=device, dtype=dtype)
        self.base = as_base(base, lipschitz)
        self.gate = as_gate(gate)

    def forward(self, input: Tensor) -> Tensor:
        return adalin(input, self.alpha_like(input), self.base, self.computed_gate)

    def saturation(self, x: Tensor) -> Tensor:
        """g(x), elementwise: 1 where the base is saturated, 0 where it is steepest."""
        return saturation(x, self.base, self.computed_gate)

    def extra_repr(self) -> str:
        return f"{self.base.name}, {super().extra_repr()}, gate={gate_name(self.gate)}"

    @property
    def computed_gate(self) -> Gate:
        """The gate to compute: where phi' is 0 or L, the built-in forms agree and the linear one is the cheapest."""
        return linear if self.base.binary and self.gate in (cosine, quadratic) else self.gate
