"""One look at a network: its units on some of its inputs, its weights, its gradients."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from adalin.metrics import undisturbed
from adalin.monitor._health import health, worst
from adalin.monitor._inputs import Call
from adalin.monitor._watch import Activations, Watch

SKETCH = 4096
"""Numbers of each parameter's gradient that are kept, to compare the gradients of several steps."""


@dataclass(frozen=True)
class Look:
    """What was seen of one network at one step."""

    network: str
    """Name of the network in the monitor."""
    step: int
    """Optimiser steps made so far."""
    seconds: float
    """Time that it took, its inputs and gradients included."""
    layers: Mapping[str, Mapping[str, float]]
    """Numbers of each hidden layer, by the path of the module whose product makes its units."""
    weights: Mapping[str, Mapping[str, float]]
    """Norm, drift and effective step of each weight with more than one axis."""
    overall: Mapping[str, float]
    """Norm of all weights, their drift, and the gradient's norm and reliability."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Name of each layer's activation."""
    sites: Mapping[str, str | None] = field(default_factory=dict)
    """Path of each layer's activation, if it is a module."""

    def worst(self, name: str) -> tuple[str, float] | None:
        """The layer with the largest number of a name, and that number."""
        values = {layer: numbers[name] for layer, numbers in self.layers.items() if name in numbers}
        if not values:
            return None
        layer = max(values, key=lambda key: values[key])
        return layer, values[layer]

    def scalars(self) -> dict[str, float]:
        """At most 11 numbers of the whole network, for a tracker: of a layer's numbers the worst layer's."""
        layers = list(self.layers.values())
        found: dict[str, float | None] = {
            name: worst(layers, name) for name in ("dead", "dormant", "saturated", "linear", "duplicate")
        }
        found["gradient_dormant"] = worst(layers, "gradient_dormant")
        found["rank_share"] = min((layer["rank_share"] for layer in layers if "rank_share" in layer), default=None)
        found |= {name: self.overall.get(name) for name in ("norm", "drift", "step", "gradient")}
        return {name: value for name, value in found.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


Sketch = tuple[Tensor, Mapping[str, Tensor]]
"""Of one step's gradients: evenly spaced numbers, and the mean size in each row of each parameter."""


@dataclass(frozen=True)
class Gradients:
    """What is kept of the gradients of a few steps."""

    sketches: Sequence[Tensor]
    """Evenly spaced numbers of each step's gradient."""
    units: Mapping[str, Tensor]
    """Mean |dL/dw| over each row of each parameter, (rows,), averaged over the steps."""
    norms: Mapping[str, float]
    """Norm of the last step's gradient, by parameter."""


def trained(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that have a dense gradient now."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not parameter.grad.is_sparse and parameter.numel()
    }


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """Norm of each parameter's present gradient."""
    gradients = {name: p.grad for name, p in trained(model).items() if p.grad is not None}
    return dict(zip(gradients, _norms(list(gradients.values())), strict=True)) if gradients else {}


def sketch_of(model: nn.Module) -> Sketch | None:
    """Of the present gradients: evenly spaced numbers, and the mean size in each row."""
    gradients = {name: p.grad.detach() for name, p in trained(model).items() if p.grad is not None}
    if not gradients:
        return None
    pieces = [g.flatten()[:: max(1, g.numel() // SKETCH)].float() for g in gradients.values()]
    rows = {name: g.abs().flatten(1).mean(1).float() for name, g in gradients.items() if g.dim() > 1}
    return torch.cat([piece.to(pieces[0].device) for piece in pieces]), rows


def gradients_of(kept: Sequence[Sketch], norms: Mapping[str, float]) -> Gradients:
    """The sketches of a few steps put together."""
    units = {}
    for name in {name: None for _, rows in kept for name in rows}:
        units[name] = torch.stack([rows[name] for _, rows in kept if name in rows]).mean(0)
    sizes = [len(sketch) for sketch, _ in kept]
    usual = statistics.mode(sizes) if sizes else 0
    return Gradients([sketch for sketch, _ in kept if len(sketch) == usual], units, norms)


def layer_label(name: str) -> str:
    """How people read a layer's name: "layer 0", "layer1"."""
    return name if "layer" in name.lower() else f"layer {name}"


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's first parameter."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def layers_of(model: nn.Module, calls: Sequence[Call]) -> list[Activations]:
    """Hidden layers of a model on some inputs, in eval mode; the model and the random state stay as they are."""
    with torch.no_grad(), undisturbed(model, device_of(model)), Watch(model) as watch:
        for call in calls:
            watch.run(lambda call=call: call.of(model))  # type: ignore[misc]
        return watch.layers()


def healths(
    model: nn.Module,
    calls: Sequence[Call],
    units: Mapping[str, Tensor] | None = None,
    first: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[dict[str, dict[str, float]], dict[str, str], dict[str, str | None]]:
    """Numbers of each hidden layer, and the name and the path of its activation."""
    found = {}
    layers = layers_of(model, calls)
    with undisturbed(model, device_of(model)):
        for layer in layers:
            gradient = None if units is None or layer.weight is None else units.get(layer.weight)
            scale = None if first is None else first.get(layer.name, {}).get("scale")
            found[layer.name] = health(layer, gradient, scale)
    return found, {layer.name: layer.base for layer in layers}, {layer.name: layer.site for layer in layers}


@torch.no_grad()
def weights_of(
    model: nn.Module, first: Mapping[str, Tensor], before: Mapping[str, Tensor], gradients: Gradients | None
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Norms, drift from the first values, effective step of each weight; and of all together."""
    now = {
        n: p.detach() for n, p in model.named_parameters() if n in first and p.shape == first[n].shape and p.dim() > 1
    }
    weights: dict[str, dict[str, float]] = {}
    if now:
        old = [first[name].to(p.device) for name, p in now.items()]
        norms, firsts = _norms(list(now.values())), _norms(old)
        drifts = _norms(torch._foreach_sub(list(now.values()), old))
        for name, norm, zero, drift in zip(now, norms, firsts, drifts, strict=True):
            weights[name] = {"norm": norm, "first_norm": zero, "drift": drift / max(zero, 1e-12)}
        moved = [name for name in now if name in before]
        if moved:
            steps = _norms(torch._foreach_sub([now[n] for n in moved], [before[n] for n in moved]))
            for name, step in zip(moved, steps, strict=True):
                weights[name]["step"] = step / max(weights[name]["norm"], 1e-12)
    overall = {}
    if weights:
        overall["norm"] = math.hypot(*(w["norm"] for w in weights.values()))
        zero = math.hypot(*(w["first_norm"] for w in weights.values()))
        drift = math.hypot(*(w["drift"] * w["first_norm"] for w in weights.values()))
        overall["drift"] = drift / max(zero, 1e-12)
        steps = [w["step"] for w in weights.values() if "step" in w]
        if steps:
            overall["step"] = statistics.median(steps)
    if gradients is not None:
        overall["gradient"] = math.hypot(*gradients.norms.values()) if gradients.norms else 0.0
        reliability = reliability_of(gradients.sketches)
        if reliability is not None:
            overall["reliability"] = reliability
    return weights, overall


def reliability_of(sketches: Sequence[Tensor]) -> float | None:
    """|E g|^2 / E|g|^2: how much of one step's gradient other steps share. 1: all of it; about 0: noise.

    The mean inner product of two different steps' gradients is an unbiased |E g|^2.
    """
    if len(sketches) < 2:
        return None
    g = torch.stack(list(sketches))
    inner = (g @ g.T).double()
    own = inner.trace() / len(g)
    if not own > 0:
        return None
    return (((inner.sum() - inner.trace()) / (len(g) * (len(g) - 1))) / own).item()


def _norms(tensors: Sequence[Tensor]) -> list[float]:
    return [norm.item() for norm in torch._foreach_norm(list(tensors))]
