"""Sign entropy: how evenly the pre-activations of a neuron are spread over both sides of 0, in bits.

    H_i = -p_i log2 p_i - (1 - p_i) log2 (1 - p_i),   p_i = P(pre-activation of neuron i > 0)

over the task's training data (and positions, for a channel), averaged over the neurons of all hidden layers. 0: every
neuron always has the same sign; 1: each sign half of the time. Razavi Rohani et al. 2025 ("Analyzing Entropy") name the
quantity without a formula; this is our reading.
"""

import math

import torch

from adalin.metrics._probe import Probe


def sign_entropy(probe: Probe) -> float | None:
    if not probe.layers:
        return None
    p = torch.cat([layer.positive for layer in probe.layers])
    return ((torch.special.entr(p) + torch.special.entr(1 - p)) / math.log(2)).mean().item()
