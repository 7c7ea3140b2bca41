import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.methods._rule import Need, Now, Rule
from adalin.structure import Network


@dataclass(frozen=True)
class FIRE(Rule):
    """FIRE (Han et al. 2026): before each task but the first, weights become the nearest ones that are orthogonal.

    X = W / |W|, then `iterations` times X <- 1.5 X - 0.5 X X' X, by Newton and Schulz; W <- sqrt(outputs / inputs) X.
    Of a convolution each place of the kernel is such a matrix, divided by the number of places. Biases stay.
    """

    name = "fire"
    title = "FIRE"
    summary = "makes weights orthogonal before each new task"
    paper = "Han et al. 2026"
    changes = frozenset({"sizes of weights"})

    iterations: int = 10
    """Number of iterations."""

    def __post_init__(self) -> None:
        self._check("iterations", self.iterations >= 1, "a whole number >= 1")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"tasks"})

    def start_task(self, net: Network, now: Now) -> None:
        params = net.params
        for name in net.weight_names if now.task > 0 else ():
            weight = params[name]
            if weight.dim() > 1:
                outputs, inputs = weight.shape[:2]
                places = weight.flatten(2) if weight.dim() > 2 else weight[..., None]
                scale = math.sqrt(outputs / inputs) / places.shape[2]
                made = [self.orthogonal(places[..., place]) * scale for place in range(places.shape[2])]
                weight.copy_(torch.stack(made, 2).view(weight.shape))

    def orthogonal(self, matrix: Tensor) -> Tensor:
        """The nearest orthogonal matrix, as far as the iterations go; a matrix of zeros stays."""
        is_wide = matrix.shape[1] > matrix.shape[0]
        x = matrix.T if is_wide else matrix
        x = x / x.norm().clamp(min=torch.finfo(x.dtype).tiny)
        for _ in range(self.iterations):
            x = 1.5 * x - 0.5 * x @ (x.T @ x)
        return x.T if is_wide else x
