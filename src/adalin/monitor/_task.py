"""What is written of a network at the end of a task of the laboratory."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from adalin.monitor._examine import SAMPLES, look_at
from adalin.monitor._inputs import call_of
from adalin.monitor._probe import probe_calls
from adalin.monitor._twins import Twins

NUMBERS = ("dead", "dormant", "quiet", "saturated", "linear", "duplicate", "gradient_dormant", "sign_entropy")
"""Numbers of layers that are averaged over all units of a network."""


def examine_task(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, fresh: Callable[[], nn.Module], seed: int = 0
) -> dict[str, Any]:
    """A look and a probe on inputs of the task, as plain values.

    `layers` has all numbers of each layer, `look` those of the network: shares of all its units, and the lowest rank.
    The gradient is that of the task's labels. `probe` is the ratio to fresh weights with its interval.
    """
    chosen = torch.arange(min(SAMPLES, len(inputs))) * len(inputs) // min(SAMPLES, len(inputs))
    some = inputs[chosen].to(next(model.parameters()).device)
    look = look_at(model, [call_of(some)], labels=labels[chosen].to(some.device))
    result = probe_calls(model, [call_of(some)], twins=Twins(model, fresh), seed=seed)
    low, high = result.interval
    layers = list(look.layers.values())
    numbers: dict[str, float | None] = {}
    for name in NUMBERS:
        having = [layer for layer in layers if name in layer]
        units = sum(layer["units"] for layer in having)
        numbers[name] = sum(layer[name] * layer["units"] for layer in having) / units if units else None
        numbers[f"{name}_worst"] = max((layer[name] for layer in having), default=None)
    numbers["rank_share"] = min((layer["rank_share"] for layer in layers if "rank_share" in layer), default=None)
    numbers["norm"] = look.overall.get("norm")
    numbers["gradient"] = look.overall.get("gradient")
    probe: dict[str, Any] = {
        "ratio": result.ratio,
        "low": low,
        "high": high if math.isfinite(high) else None,
        "steps": result.steps,
    }
    probe |= {"aged": list(result.aged), "fresh": list(result.fresh), "seconds": round(result.seconds, 3)}
    return {"look": numbers, "probe": probe, "layers": {name: dict(layer) for name, layer in look.layers.items()}}
