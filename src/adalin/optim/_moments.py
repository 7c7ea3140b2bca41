"""What optimisers remember of a network: tensors like its parts."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from adalin.structure import Part


def zeros(name: str, parts: Sequence[Part]) -> dict[str, Tensor]:
    """One tensor of zeros for each part, `<name>.<part>`."""
    return {f"{name}.{part.name}": torch.zeros_like(part.value) for part in parts}


def moments(name: str, parts: Sequence[Part], state: Mapping[str, Tensor]) -> list[Tensor]:
    """Those that `zeros` made, in the order of the parts."""
    return [state[f"{name}.{part.name}"] for part in parts]


def decayed(parts: Sequence[Part], weight_decay: float) -> list[Tensor]:
    """Gradients with that of weight_decay / 2 * |w|^2; alphas and norms have none."""
    grads = [part.grad for part in parts]
    if not weight_decay:
        return grads
    factors = [weight_decay * part.is_weight for part in parts]
    scaled = torch._foreach_mul([part.value for part in parts], factors)
    torch._foreach_add_(scaled, grads)
    return list(scaled)
