import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.native import Pass, PassKind
from adalin.optim._moments import State, decayed, moments, zeros
from adalin.optim._optimizer import Optimizer
from adalin.structure import Part

LARGEST = torch.finfo(torch.float32).max
"""Largest factor that torch takes: with a learning rate near it, networks diverge, as they should."""


@dataclass(frozen=True, repr=False)
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1): p <- p - lr * m' / (sqrt(v') + eps), m' and v' without their bias.

    m is a running mean of the gradient, v one of its square. Weight decay is part of the gradient.
    """

    name = "adam"
    title = "Adam"
    summary = "steps of about the same size in every direction; weight decay in the gradient"
    paper = "Kingma & Ba 2015"

    beta1: float = 0.9
    """Share of the gradient's running mean that stays in each step."""
    beta2: float = 0.999
    """Share of the squared gradient's running mean that stays in each step."""
    eps: float = 1e-8
    """Number added to the root, so that nothing is divided by 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("beta1", 0 <= self.beta1 < 1, "a number from 0 to below 1")
        self._check("beta2", 0 <= self.beta2 < 1, "a number from 0 to below 1")
        self._check("eps", 1e-30 <= self.eps < math.inf, "a number of at least 1e-30")

    def init(self, parts: Sequence[Part]) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float64),
            **zeros("exp_avg", parts),
            **zeros("exp_avg_sq", parts),
        }

    def step(self, parts: Sequence[Part], state: Mapping[str, Tensor], lr: float) -> None:
        self._move(parts, decayed(parts, self.weight_decay), state, lr)

    def native(self, state: Mapping[str, Tensor], parts: Sequence[Part], lr: float) -> Pass | None:
        if "step" not in state:  # each part has steps of its own
            return None
        return Pass(
            PassKind.ADAM,
            [part.value for part in parts],
            [part.grad for part in parts],
            [part.is_weight for part in parts],
            lr,
            momentum=self.beta1,
            beta=self.beta2,
            epsilon=self.eps,
            weight_decay=self.weight_decay,
            decoupled=not self.decays_in_gradient,
            first=moments("exp_avg", parts, state),
            second=moments("exp_avg_sq", parts, state),
            steps=state["step"],
        )

    def _move(self, parts: Sequence[Part], grads: list[Tensor], state: Mapping[str, Tensor], lr: float) -> None:
        own = [state["step"]] if "step" in state else moments("step", parts, state)
        steps = [step.add_(1).item() for step in own] * (len(parts) // len(own))
        means, squares = moments("exp_avg", parts, state), moments("exp_avg_sq", parts, state)
        torch._foreach_lerp_(means, grads, 1 - self.beta1)
        torch._foreach_mul_(squares, self.beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1 - self.beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, [math.sqrt(1 - self.beta2**step) for step in steps])
        torch._foreach_add_(roots, self.eps)
        values = [part.value for part in parts]
        sizes = [-min(lr / (1 - self.beta1**step), LARGEST) for step in steps]
        torch._foreach_addcdiv_(values, means, roots, sizes)


@dataclass(frozen=True, repr=False)
class AdamW(Adam):
    """Adam with weights that are scaled by 1 - lr * weight_decay before each step (Loshchilov & Hutter 2019)."""

    name = "adamw"
    title = "AdamW"
    summary = "Adam with weight decay apart from the gradient"
    paper = "Loshchilov & Hutter 2019"

    weight_decay: float = 1e-2
    """Strength of the decay of weights and biases."""

    @property
    def decays_in_gradient(self) -> bool:
        return False

    def step(self, parts: Sequence[Part], state: Mapping[str, Tensor], lr: float) -> None:
        if self.weight_decay:
            torch._foreach_mul_([part.value for part in parts if part.is_weight], 1 - lr * self.weight_decay)
        self._move(parts, [part.grad for part in parts], state, lr)
