"""Numbers about the units of one hidden layer, of what its activation got and gave for a few hundred inputs."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from adalin.metrics import dormant_units, effective_rank_of, sign_entropies
from adalin.monitor._watch import ROWS, Activations

SLOPE = 1e-3
"""Slope of the activation below which it passes no gradient."""
MEAN_SLOPE = 0.01
"""Mean slope below which a unit is saturated."""
COSINE = 0.99
"""Cosine of two units' outputs, without their means, above which they are duplicates."""
GRADIENT = 0.01
"""Share of its layer's mean gradient below which a unit is gradient-dormant (Liu et al. 2025, GraMa)."""
WIDTH = 512
"""Units that are compared with each other; of a wider layer, evenly spaced ones."""
RANK_WIDTH = 128
"""Units whose effective rank is taken, likewise: its cost grows with their number's cube."""


@torch.no_grad()
def health(layer: Activations, gradient: Tensor | None = None, scale: float | None = None) -> dict[str, float]:
    """Shares of a layer's units that do not work, and its rank.

    Args:
        layer: the activation's inputs and outputs.
        gradient: mean |dL/dw| over the weights that make each unit, (units,).
        scale: mean |output| of the layer when it was new, for units that are dormant in absolute terms.
    """
    z, h = _spaced(torch.cat(layer.inputs)), _spaced(torch.cat(layer.outputs))
    if not h.isfinite().all():
        return {"units": float(h.shape[1]), "finite": 0.0}
    mean = h.abs().mean(0)
    own = mean.mean().item()
    numbers = {"units": float(h.shape[1]), "scale": own, "dormant": _share(dormant_units(mean))}
    numbers["quiet"] = _share(dormant_units(mean) if scale is None else mean <= mean.new_tensor(0.025 * scale))
    numbers["sign_entropy"] = sign_entropies((z > 0).float().mean(0)).mean().item()
    slopes = _slopes(layer, z)
    if slopes is not None:
        most, least = slopes.amax(0), slopes.amin(0)
        is_saturated = slopes.mean(0) <= MEAN_SLOPE
        numbers["dead"] = _share(most <= SLOPE)
        numbers["saturated"] = _share(is_saturated)
        numbers["linear"] = _share((most - least <= SLOPE) & ~is_saturated)
        numbers["slope"] = slopes.mean().item()
    few = _some_units(h, RANK_WIDTH)
    numbers["rank"] = effective_rank_of(few)
    numbers["rank_share"] = numbers["rank"] / min(few.shape)
    numbers["duplicate"] = _duplicates(_some_units(h, WIDTH))
    if gradient is not None and len(gradient) == h.shape[1]:
        numbers["gradient_dormant"] = gradient_dormant(gradient)
    return numbers


def gradient_dormant(gradient: Tensor) -> float:
    """Share of units whose weights get next to no gradient, beside the mean of their layer."""
    mean = gradient.mean()
    return 1.0 if not mean > 0 else _share(gradient <= GRADIENT * mean)


def _share(units: Tensor) -> float:
    return units.float().mean().item()


def _spaced(rows: Tensor) -> Tensor:
    return rows if len(rows) <= ROWS else rows[torch.arange(ROWS, device=rows.device) * len(rows) // ROWS]


def _some_units(h: Tensor, most: int) -> Tensor:
    return h if h.shape[1] <= most else h[:, torch.arange(most, device=h.device) * h.shape[1] // most]


def _slopes(layer: Activations, z: Tensor) -> Tensor | None:
    """|phi'| at every number that the activation got, by autograd: right for any activation that keeps the shape."""
    if layer.function is None:
        return None
    shape = [1] * layer.dims
    shape[0], shape[layer.axis] = z.shape
    with torch.enable_grad():
        x = z.clone().requires_grad_()
        # The model may have another dtype than the numbers that are kept; the activation's own parameters decide.
        try:
            y = layer.function(x.reshape(shape))
            (slopes,) = torch.autograd.grad(y.float().sum(), x)
        except RuntimeError:
            return None
    return slopes.abs()


def _duplicates(h: Tensor) -> float:
    """Share of units that another, earlier unit already gives, up to sign and scale."""
    centred = h - h.mean(0)
    norm = centred.norm(dim=0)
    lives = norm > 1e-6 * norm.max()
    unit = torch.where(lives, centred / norm.clamp_min(1e-30), torch.zeros_like(centred))
    cosine = (unit.T @ unit).abs_().triu_(1)
    return _share((cosine > COSINE).any(0))


def worst(layers: Sequence[Mapping[str, float]], name: str) -> float | None:
    """The largest value among layers that have it; None if none has."""
    values = [layer[name] for layer in layers if name in layer and math.isfinite(layer[name])]
    return max(values, default=None)
