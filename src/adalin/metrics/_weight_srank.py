"""srank (see `_srank.py`) of each weight matrix, in the model's order; kernels are flattened to (out, in * kh * kw).

Razavi Rohani et al. 2025 speak of "the effective rank of the network's weight matrices" and of "feature rank" in one
sentence, so both are measured.
"""

from adalin.metrics._probe import Probe
from adalin.metrics._srank import srank_of
from adalin.metrics._weights import weights


def weight_srank(probe: Probe) -> list[float]:
    return [srank_of(weight.flatten(1)) for weight in weights(probe.model).values() if weight.dim() >= 2]
