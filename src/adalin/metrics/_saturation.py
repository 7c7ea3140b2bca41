"""Saturation: the mean of the gate g(x) = cos(pi/2 * |phi'(x)| / L) over the task's training data, per neuron.

1: the base phi is flat wherever the neuron's pre-activations are; 0: it is steepest there (Razavi Rohani et al. 2025,
equation 2; figure "alpha and saturation"). One list per hidden layer. A layer of AdaLin has the gate it was built with;
a plain tanh, ReLU, ... the cosine gate of that function; null stands for a layer whose base is not known (CReLU).
"""

from torch import Tensor

from adalin.metrics._probe import Probe


def saturation(probe: Probe) -> list[Tensor | None] | None:
    layers = [layer.saturation for layer in probe.layers]
    return None if all(layer is None for layer in layers) else layers
