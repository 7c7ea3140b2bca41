"""Parameter groups that keep alpha out of weight decay."""

import math
from typing import Any

from torch import nn

from adalin.nn._per_neuron import PerNeuron


def param_groups(model: nn.Module, weight_decay: float, **options: Any) -> list[dict[str, Any]]:
    """Two groups for any optimiser: every alpha without weight decay, everything else with it.

    Decay would pull alpha to 0, which is the base activation that loses plasticity. `options` go to both groups.

    Examples:
        >>> import torch
        >>> from adalin import AdaLin, param_groups
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), AdaLin("relu", 8), torch.nn.Linear(8, 2))
        >>> optimizer = torch.optim.AdamW(param_groups(model, weight_decay=0.1), lr=1e-3)
        >>> [(len(g["params"]), g["weight_decay"]) for g in optimizer.param_groups]
        [(4, 0.1), (1, 0.0)]
    """
    if not isinstance(model, nn.Module):
        hint = ": give its .model" if isinstance(getattr(model, "model", None), nn.Module) else ""
        raise TypeError(f"param_groups needs an nn.Module, not {type(model).__name__}{hint}")
    if not (isinstance(weight_decay, int | float) and math.isfinite(weight_decay) and weight_decay >= 0):
        raise ValueError(f"weight_decay must be a finite number >= 0, not {weight_decay!r}")
    weights, alphas = split_parameters(model)
    groups = [
        {"params": weights, "weight_decay": weight_decay, **options},
        {"params": alphas, "weight_decay": 0.0, **options},
    ]
    return [group for group in groups if group["params"]]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The model's parameters that are no alphas, and its alphas, each once."""
    layers = (module for module in model.modules() if isinstance(module, PerNeuron))
    # Not `layer.alpha`, which is computed where it is parametrised.
    alphas = {id(alpha): alpha for layer in layers for alpha in layer.parameters()}
    return [parameter for parameter in model.parameters() if id(parameter) not in alphas], list(alphas.values())
