"""What optimisers remember of a network: tensors like its parts."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from adalin.structure import Network, Part

State = dict[str, Tensor]
"""An optimiser's memory: `exp_avg.weights`, `step`, ..."""


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


def named_memory(network: Network, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A memory of a network by the names of the parameters, which are the same in every engine.

    Where it has a tensor of `<what>.<part>` for each part, these become `<what>.<parameter>`; others stay as they are.
    """
    parts = {part.name for part in network.parts}
    known: dict[str, set[str]] = {}
    for name in state:
        what, _, part = name.partition(".")
        known.setdefault(what, set()).add(part)
    named = {}
    for name, value in state.items():
        what, _, part = name.partition(".")
        if part not in parts or not parts <= known[what]:
            named[name] = value
    for what, found in known.items():
        if parts and parts <= found:
            values = moments(what, network.parts, state)
            named |= {f"{what}.{name}": value for name, value in network.named(values).items()}
    return named


def separate_steps(parts: Sequence[Part], state: State) -> State:
    """A memory before the first step that counts steps for each part by itself, where it counted them for all."""
    if "step" not in state:
        return state
    others = {name: value for name, value in state.items() if name != "step"}
    return {f"step.{part.name}": torch.zeros_like(state["step"]) for part in parts} | others
