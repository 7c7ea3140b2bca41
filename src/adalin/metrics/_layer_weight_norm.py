"""The weight norm (see `_weight_norm.py`) of each layer by its name: weight and bias of one module together.

The squares of the values add up to the square of the weight norm.
"""

from collections import defaultdict

from torch import Tensor

from adalin.metrics._probe import Probe
from adalin.metrics._weight_norm import norm
from adalin.metrics._weights import weights


def layer_weight_norm(probe: Probe) -> dict[str, float]:
    layers: dict[str, list[Tensor]] = defaultdict(list)
    for name, parameter in weights(probe.model).items():
        layers[name.rpartition(".")[0]].append(parameter)
    return {name: norm(parameters) for name, parameters in layers.items()}
