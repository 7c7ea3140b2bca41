from dataclasses import dataclass

from adalin.methods._rule import Need, Now, Rule
from adalin.structure import Network


@dataclass(frozen=True)
class L2(Rule):
    """L2 regularisation: strength / 2 * sum of p^2 in the loss, so that strength * p is added to the gradient.

    Weights and biases, as in Kumar et al. 2023; alphas and norms are left alone. With plain SGD a step is
    p <- (1 - lr * strength) p - lr * gradient.
    """

    name = "l2"
    title = "L2"
    summary = "L2 regularisation of weights and biases"
    paper = "Kumar et al. 2023"
    opposes = frozenset({"norms"})

    strength: float = 0.01
    """Strength of the decay."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength < float("inf"):
            raise ValueError(f"the strength of l2 must be a number >= 0, not {self.strength}")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"gradients"})

    @property
    def decay(self) -> float:
        return self.strength

    def before_step(self, net: Network, now: Now) -> None:
        for part in net.weights:
            part.grad.add_(part.value, alpha=self.strength)
