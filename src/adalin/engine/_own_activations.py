"""Activations of a user's own, in torch: what native kernels need of them between two products."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from adalin.nn import AdaLin, Interpolation, gate_into

Derivatives = tuple[Tensor, Tensor, Tensor | None]
"""f(x), df/dx and, where there is an alpha, df/dalpha."""


def own_activation(activation: nn.Module) -> Callable[[Tensor], Derivatives]:
    """What computes an elementwise activation with its derivatives."""
    if isinstance(activation, AdaLin):
        return lambda x: _adalin(activation, x)
    if isinstance(activation, Interpolation):
        return lambda x: _interpolation(activation, x)
    return lambda x: (*_value_and_slope(activation.forward, x), None)  # hooks are for those who watch


def _adalin(layer: AdaLin, x: Tensor) -> Derivatives:
    y, slope = _value_and_slope(layer.base.phi, x)
    g, alpha = torch.empty_like(x), layer.alpha.detach()
    gate_into(g, slope, torch.empty_like(x), layer.base, layer.computed_gate)
    injected = x * g
    return y.addcmul_(injected, alpha), slope.addcmul_(g, alpha), injected


def _interpolation(layer: Interpolation, x: Tensor) -> Derivatives:
    y, slope = _value_and_slope(layer.base.phi, x)
    share, rest = torch.sigmoid(layer.alpha.detach()), x - y
    return torch.addcmul(y, rest, share), slope + share * (1 - slope), rest * (share * (1 - share))


def _value_and_slope(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Of an elementwise function: its Jacobian is diagonal, so one product with ones gives all of it."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = function(x)
        (slope,) = torch.autograd.grad(y, x, torch.ones_like(y), materialize_grads=True)
    return y.detach(), slope
