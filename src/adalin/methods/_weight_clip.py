import math
from dataclasses import dataclass

from adalin.methods._replace import inputs_of
from adalin.methods._rule import Now, Rule
from adalin.structure import Network


@dataclass(frozen=True)
class WeightClip(Rule):
    """Weight clipping (Elsayed et al. 2024): after every step, |p| <= zeta / sqrt(inputs).

    A bias has the inputs of its layer. Alphas and norms are left alone.
    """

    name = "weight-clip"
    title = "Weight clipping"
    summary = "keeps weights and biases between bounds of their layer"
    paper = "Elsayed et al. 2024"
    changes = frozenset({"sizes of weights"})

    zeta: float = 1.0
    """Bound in multiples of torch's first weights."""
    last: bool = True
    """Whether the last layer is clipped too."""

    def __post_init__(self) -> None:
        self._check("zeta", 0 < self.zeta < math.inf, "a number > 0")

    def after_step(self, net: Network, now: Now) -> None:
        params = net.params
        names = net.weight_names
        last = names[-1].rpartition(".")[0] if names and not self.last else None
        for name in names:
            if last is None or name.rpartition(".")[0] != last:
                bound = self.zeta / math.sqrt(inputs_of(params, name))
                params[name].clamp_(-bound, bound)
