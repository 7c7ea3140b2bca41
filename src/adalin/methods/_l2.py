from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from adalin.methods._rule import Rule


@dataclass(frozen=True)
class L2(Rule):
    """L2 regularisation: lambda/2 * sum of p^2 in the loss, that is p <- (1 - lr * lambda) p - lr * gradient.

    Weights and biases, as in Kumar et al. 2023; alphas are not decayed.
    """

    name = "l2"
    summary = "L2 regularisation of weights and biases"
    paper = "Kumar et al. 2023"
    scales_only = True

    strength: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.strength < float("inf"):
            raise ValueError(f"the strength of l2 must be a number >= 0, not {self.strength}")

    def before_update(self, weights: Sequence[Tensor], lr: float) -> None:
        for weight in weights:
            weight.mul_(1 - lr * self.strength)
