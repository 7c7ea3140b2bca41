"""What the hidden units do on the task's training data."""

import math

import torch
from torch import Tensor

from adalin.metrics._network_on_data import NetworkOnData
from adalin.metrics._registry import register_metric
from adalin.nn import PerNeuron

OURS = "Razavi Rohani et al. 2025"
TAU = 0.025
"""Share of its layer's mean output below which a unit is dormant."""


@register_metric(
    "sign_entropy", "entropy of the pre-activations' signs, in bits", paper=OURS, needs={"inputs", "units"}
)
def sign_entropy(network: NetworkOnData) -> float | None:
    """How evenly the pre-activations of a neuron are spread over both sides of 0, in bits.

        H_i = -p_i log2 p_i - (1 - p_i) log2 (1 - p_i),   p_i = P(pre-activation of neuron i > 0)

    over the task's training data (and positions, for a channel), averaged over the neurons of all hidden layers. 0:
    every neuron always has the same sign; 1: each sign half of the time. Razavi Rohani et al. 2025 ("Analyzing
    Entropy") name the quantity without a formula; this is our reading.
    """
    if not network.layers:
        return None
    p = torch.cat([layer.positive for layer in network.layers])
    return sign_entropies(p).mean().item()


@register_metric(
    "dormant", "share of units with next to no output", paper="Sokar et al. 2023", needs={"inputs", "units"}
)
def dormant(network: NetworkOnData) -> float | None:
    """Share of dormant units: those that give next to nothing compared with the others of their layer.

        s_i = E|h_i| / mean_k E|h_k|,   unit i is dormant if s_i <= tau = 0.025

    with h_i the unit's output on the task's training data. Sokar et al. 2023, "The Dormant Neuron Phenomenon in Deep
    Reinforcement Learning", equation 1. Every unit of a layer that gives only zeros is dormant; each of the two outputs
    of CReLU and deep Fourier features counts as a unit.
    """
    if not network.layers:
        return None
    outputs = [layer.mean_abs_output for layer in network.layers]
    if not all(output.isfinite().all() for output in outputs):
        return math.nan
    # Multiplied out, so that a layer of zeros needs no case of its own.
    return torch.cat([dormant_units(output) for output in outputs]).double().mean().item()


def sign_entropies(positive: Tensor) -> Tensor:
    """H_i of each unit in bits, of the share of its pre-activations that are above 0."""
    return (torch.special.entr(positive) + torch.special.entr(1 - positive)) / math.log(2)


def dormant_units(mean_abs_output: Tensor) -> Tensor:
    """Which units of a layer are dormant, of their E|h_i|."""
    return mean_abs_output <= TAU * mean_abs_output.mean()


@register_metric("alpha", "the learned alphas, per layer and neuron", paper=OURS, needs={"inputs", "units"})
def alpha(network: NetworkOnData) -> list[Tensor] | None:
    """The alphas of AdaLin (equation 2; figure "alpha and saturation"), as they are learned.

    One list per hidden layer that has them, with one value per neuron, or a single one if the layer has a single alpha;
    an alpha that layers share appears once. For `Interpolation` it is the value before the sigmoid.
    """
    modules = [layer.module for layer in network.layers]
    alphas = {id(module.alpha): module.alpha.detach() for module in modules if isinstance(module, PerNeuron)}
    return list(alphas.values()) or None


@register_metric("saturation", "mean gate g(x), per layer and neuron", paper=OURS, needs={"inputs", "units"})
def saturation(network: NetworkOnData) -> list[Tensor | None] | None:
    """The mean of the gate g(x) = cos(pi/2 * |phi'(x)| / L) over the task's training data, per neuron.

    1: the base phi is flat wherever the neuron's pre-activations are; 0: it is steepest there (equation 2; figure
    "alpha and saturation"). One list per hidden layer. A layer of AdaLin has the gate it was built with; a plain tanh,
    ReLU, ... the cosine gate of that function; null stands for a layer whose base is not known (CReLU).
    """
    layers = [layer.saturation for layer in network.layers]
    return None if all(layer is None for layer in layers) else layers
