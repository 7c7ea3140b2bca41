import math
from dataclasses import dataclass

import torch

from adalin.methods._rule import Need, Now, Rule, State
from adalin.structure import Network


@dataclass(frozen=True)
class L2Init(Rule):
    """L2-init (Kumar et al. 2023): strength / 2 * sum of (p - p0)^2 in the loss, with the first weights p0.

    Weights and biases, as in the authors' code; alphas and norms are left alone.
    """

    name = "l2-init"
    title = "L2-init"
    summary = "pulls weights and biases back to their first values"
    paper = "Kumar et al. 2023"
    opposes = frozenset({"norms"})

    strength: float = 0.01
    """Strength of the pull."""

    def __post_init__(self) -> None:
        self._check("strength", 0 <= self.strength < math.inf, "a number >= 0")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"gradients", "initial"})

    def init(self, net: Network) -> State:
        return {f"initial.{part.name}": part.value.clone() for part in net.parts}

    def before_step(self, net: Network, now: Now) -> None:
        parts = net.weights
        away = torch._foreach_sub(
            [part.value for part in parts], [now.memory[f"initial.{part.name}"] for part in parts]
        )
        torch._foreach_add_([part.grad for part in parts], away, alpha=self.strength)
