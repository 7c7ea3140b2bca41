"""What the hidden units do on the task's training data."""

import math

import torch
from torch import Tensor

from adalin.metrics._probe import Probe
from adalin.metrics._registry import register_metric
from adalin.nn import PerNeuron

OURS = "Razavi Rohani et al. 2025"
TAU = 0.025


@register_metric(
    "sign_entropy", "entropy of the pre-activations' signs, in bits", paper=OURS, needs={"inputs", "units"}
)
def sign_entropy(probe: Probe) -> float | None:
    """How evenly the pre-activations of a neuron are spread over both sides of 0, in bits.

        H_i = -p_i log2 p_i - (1 - p_i) log2 (1 - p_i),   p_i = P(pre-activation of neuron i > 0)

    over the task's training data (and positions, for a channel), averaged over the neurons of all hidden layers. 0:
    every neuron always has the same sign; 1: each sign half of the time. Razavi Rohani et al. 2025 ("Analyzing
    Entropy") name the quantity without a formula; this is our reading.
    """
    if not probe.layers:
        return None
    p = torch.cat([layer.positive for layer in probe.layers])
    return ((torch.special.entr(p) + torch.special.entr(1 - p)) / math.log(2)).mean().item()


@register_metric(
    "dormant", "share of units with next to no output", paper="Sokar et al. 2023", needs={"inputs", "units"}
)
def dormant(probe: Probe) -> float | None:
    """Share of dormant units: those that give next to nothing compared with the others of their layer.

        s_i = E|h_i| / mean_k E|h_k|,   unit i is dormant if s_i <= tau = 0.025

    with h_i the unit's output on the task's training data. Sokar et al. 2023, "The Dormant Neuron Phenomenon in Deep
    Reinforcement Learning", equation 1. Every unit of a layer that gives only zeros is dormant; each of the two outputs
    of CReLU and deep Fourier features counts as a unit.
    """
    if not probe.layers:
        return None
    outputs = [layer.mean_abs_output for layer in probe.layers]
    if not all(output.isfinite().all() for output in outputs):
        return math.nan
    # Multiplied out, so that a layer of zeros needs no case of its own.
    return torch.cat([output <= TAU * output.mean() for output in outputs]).double().mean().item()


@register_metric("alpha", "the learned alphas, per layer and neuron", paper=OURS, needs={"inputs", "units"})
def alpha(probe: Probe) -> list[Tensor] | None:
    """The alphas of AdaLin (equation 2; figure "alpha and saturation"), as they are learned.

    One list per hidden layer that has them, with one value per neuron, or a single one if the layer has a single alpha;
    an alpha that layers share appears once. For `Interpolation` it is the value before the sigmoid.
    """
    modules = [layer.module for layer in probe.layers]
    alphas = {id(module.alpha): module.alpha.detach() for module in modules if isinstance(module, PerNeuron)}
    return list(alphas.values()) or None


@register_metric("saturation", "mean gate g(x), per layer and neuron", paper=OURS, needs={"inputs", "units"})
def saturation(probe: Probe) -> list[Tensor | None] | None:
    """The mean of the gate g(x) = cos(pi/2 * |phi'(x)| / L) over the task's training data, per neuron.

    1: the base phi is flat wherever the neuron's pre-activations are; 0: it is steepest there (equation 2; figure
    "alpha and saturation"). One list per hidden layer. A layer of AdaLin has the gate it was built with; a plain tanh,
    ReLU, ... the cosine gate of that function; null stands for a layer whose base is not known (CReLU).
    """
    layers = [layer.saturation for layer in probe.layers]
    return None if all(layer is None for layer in layers) else layers
