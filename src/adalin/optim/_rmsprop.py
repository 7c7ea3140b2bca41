import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.native import Pass, PassKind
from adalin.optim._moments import State, decayed, moments, zeros
from adalin.optim._optimizer import Optimizer
from adalin.structure import Part


@dataclass(frozen=True, repr=False)
class RMSprop(Optimizer):
    """The gradient over its root mean square (Tieleman & Hinton 2012): d = g / (sqrt(v) + eps); p <- p - lr * d.

    v is a running mean of the squared gradient. With momentum, b <- momentum * b + d, and b takes the place of d.
    """

    name = "rmsprop"
    title = "RMSprop"
    summary = "the gradient over the root of a running mean of its square"
    paper = "Tieleman & Hinton 2012"

    alpha: float = 0.99
    """Share of the squared gradient's running mean that stays in each step."""
    eps: float = 1e-8
    """Number added to the root, so that nothing is divided by 0."""
    momentum: float = 0.0
    """Share of the last step's direction that the next one keeps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("alpha", 0 <= self.alpha < 1, "a number from 0 to below 1")
        self._check("eps", 1e-30 <= self.eps < math.inf, "a number of at least 1e-30")
        self._check("momentum", 0 <= self.momentum < 1, "a number from 0 to below 1")

    def init(self, parts: Sequence[Part]) -> State:
        return zeros("square_avg", parts) | (zeros("momentum_buffer", parts) if self.momentum else {})

    def step(self, parts: Sequence[Part], state: Mapping[str, Tensor], lr: float) -> None:
        values = [part.value for part in parts]
        grads = decayed(parts, self.weight_decay)
        squares = moments("square_avg", parts, state)
        torch._foreach_mul_(squares, self.alpha)
        torch._foreach_addcmul_(squares, grads, grads, 1 - self.alpha)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, self.eps)
        if self.momentum:
            buffers = moments("momentum_buffer", parts, state)
            torch._foreach_mul_(buffers, self.momentum)
            torch._foreach_addcdiv_(buffers, grads, roots)
            torch._foreach_add_(values, buffers, alpha=-lr)
        else:
            torch._foreach_addcdiv_(values, grads, roots, -lr)

    def native(self, state: Mapping[str, Tensor], parts: Sequence[Part], lr: float) -> Pass | None:
        return Pass(
            PassKind.RMSPROP,
            [part.value for part in parts],
            [part.grad for part in parts],
            [part.is_weight for part in parts],
            lr,
            momentum=self.momentum,
            beta=self.alpha,
            epsilon=self.eps,
            weight_decay=self.weight_decay,
            first=moments("momentum_buffer", parts, state) if self.momentum else (),
            second=moments("square_avg", parts, state),
        )
