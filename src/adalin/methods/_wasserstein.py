import math
from dataclasses import dataclass

import torch

from adalin.methods._rule import Need, Now, Rule, State
from adalin.structure import Network


@dataclass(frozen=True)
class Wasserstein(Rule):
    """Wasserstein regeneration (Lewandowski et al. 2023): strength * sum over tensors of |sort(p) - sort(p0)|^2 / n.

    Each tensor of n numbers is pulled to the distribution of its first values p0. Weights and biases; alphas and norms
    are left alone.
    """

    name = "wasserstein"
    title = "Wasserstein"
    summary = "pulls each tensor to the distribution of its first values"
    paper = "Lewandowski et al. 2023"
    opposes = frozenset({"norms"})

    strength: float = 1e-3
    """Strength of the pull."""

    def __post_init__(self) -> None:
        self._check("strength", 0 <= self.strength < math.inf, "a number >= 0")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"gradients", "initial"})

    def init(self, net: Network) -> State:
        params = net.params
        return {f"sorted.{name}.numbers": params[name].flatten().sort().values for name in net.weight_names}

    def before_step(self, net: Network, now: Now) -> None:
        params, grads = net.params, net.grads
        for name in net.weight_names:
            value = params[name]
            own, order = value.flatten().sort(stable=True)
            away = torch.empty_like(own)
            away[order] = own - now.memory[f"sorted.{name}.numbers"]
            grads[name].add_(away.view(value.shape), alpha=2 * self.strength / value.numel())
