import math
from dataclasses import dataclass

import torch

from adalin.methods._rule import Need, Now, Rule
from adalin.structure import Network


@dataclass(frozen=True)
class Parseval(Rule):
    """Parseval regularisation (Chung et al. 2024): strength * (64 / units)^2 * |W W' - scale I|^2 in the loss.

    For the weights before every hidden layer, each unit's as one row of W; not for those of the output.
    """

    name = "parseval"
    title = "Parseval"
    summary = "pulls the weights of hidden layers to orthogonal rows"
    paper = "Chung et al. 2024"
    opposes = frozenset({"sizes of weights", "norms"})

    strength: float = 1e-3
    """Strength of the pull."""
    scale: float = 2.0
    """Squared length of the rows."""

    def __post_init__(self) -> None:
        self._check("strength", 0 <= self.strength < math.inf, "a number >= 0")
        self._check("scale", 0 < self.scale < math.inf, "a number > 0")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"units", "gradients"})

    def before_step(self, net: Network, now: Now) -> None:
        params, grads = net.params, net.grads
        fed = dict.fromkeys(edge.parameter for layer in net.layers for edge in layer.incoming)
        for name in fed:
            if name in params:
                rows = params[name].flatten(1)
                units = rows.shape[0]
                away = rows @ rows.T - self.scale * torch.eye(units, dtype=rows.dtype, device=rows.device)
                pull = (away @ rows).view(params[name].shape)
                grads[name].add_(pull, alpha=4 * self.strength * (64 / units) ** 2)
