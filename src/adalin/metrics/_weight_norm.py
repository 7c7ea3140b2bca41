"""Weight norm: the L2 norm of all the network's parameters but the alphas, i.e. of its weights and biases together.

    sqrt(sum_p p^2)

The scale and shift of normalisation layers and the slope of `nn.PReLU` count, running statistics do not. Alphas are
left out so that networks with and without them compare. Lyle et al. 2024; Razavi Rohani et al. 2025.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from adalin.metrics._probe import Probe
from adalin.metrics._weights import weights


def weight_norm(probe: Probe) -> float:
    return norm(weights(probe.model).values())


def norm(tensors: Iterable[Tensor]) -> float:
    """The L2 norm of some tensors taken as one vector, in float64."""
    norms = [torch.linalg.vector_norm(tensor, dtype=torch.float64) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0
