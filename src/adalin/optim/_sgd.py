from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.native import Pass, PassKind
from adalin.optim._moments import State, decayed, moments, zeros
from adalin.optim._optimizer import Optimizer
from adalin.structure import Part


@dataclass(frozen=True, repr=False)
class SGD(Optimizer):
    """Stochastic gradient descent: b <- momentum * b + g; p <- p - lr * b, or lr * (g + momentum * b) with Nesterov's.

    torch.optim.SGD begins with b = g, as here: b is 0 before the first step.
    """

    name = "sgd"
    title = "SGD"
    summary = "stochastic gradient descent, with momentum or without"
    paper = "Robbins & Monro 1951; Sutskever et al. 2013"
    usual_lr = None

    momentum: float = 0.0
    """Share of the last step's direction that the next one keeps."""
    nesterov: bool = False
    """Whether the gradient is taken as if the momentum had already been followed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("momentum", 0 <= self.momentum < 1, "a number from 0 to below 1")
        self._check("nesterov", not self.nesterov or self.momentum > 0, "false where there is no momentum")

    def init(self, parts: Sequence[Part]) -> State:
        return zeros("momentum_buffer", parts) if self.momentum else {}

    def step(self, parts: Sequence[Part], state: Mapping[str, Tensor], lr: float) -> None:
        values = [part.value for part in parts]
        direction = decayed(parts, self.weight_decay)
        if self.momentum:
            buffers = moments("momentum_buffer", parts, state)
            torch._foreach_mul_(buffers, self.momentum)
            torch._foreach_add_(buffers, direction)
            ahead = torch._foreach_add(direction, buffers, alpha=self.momentum) if self.nesterov else buffers
            direction = list(ahead)
        torch._foreach_add_(values, direction, alpha=-lr)

    def native(self, state: Mapping[str, Tensor], parts: Sequence[Part], lr: float) -> Pass | None:
        return Pass(
            PassKind.SGD,
            [part.value for part in parts],
            [part.grad for part in parts],
            [part.is_weight for part in parts],
            lr,
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
            first=moments("momentum_buffer", parts, state) if self.momentum else (),
        )
