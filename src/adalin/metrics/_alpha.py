"""The alphas of AdaLin (Razavi Rohani et al. 2025, equation 2; figure "alpha and saturation"), as they are learned.

One list per hidden layer that has them, with one value per neuron, or a single one if the layer has a single alpha; an
alpha that layers share appears once. For `Interpolation` it is the value before the sigmoid.
"""

from torch import Tensor

from adalin.metrics._probe import Probe
from adalin.nn._per_neuron import PerNeuron


def alpha(probe: Probe) -> list[Tensor] | None:
    modules = [layer.module for layer in probe.layers]
    alphas = {id(module.alpha): module.alpha.detach() for module in modules if isinstance(module, PerNeuron)}
    return list(alphas.values()) or None
