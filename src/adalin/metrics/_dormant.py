"""Share of dormant units: those that give next to nothing compared with the others of their layer.

    s_i = E|h_i| / mean_k E|h_k|,   unit i is dormant if s_i <= tau = 0.025

with h_i the unit's output on the task's training data. Sokar et al. 2023, "The Dormant Neuron Phenomenon in Deep
Reinforcement Learning", equation 1. Every unit of a layer that gives only zeros is dormant; each of the two outputs of
CReLU and deep Fourier features counts as a unit.
"""

import math

import torch

from adalin.metrics._probe import Probe

TAU = 0.025


def dormant(probe: Probe) -> float | None:
    if not probe.layers:
        return None
    outputs = [layer.mean_abs_output for layer in probe.layers]
    if not all(output.isfinite().all() for output in outputs):
        return math.nan
    # Multiplied out, so that a layer of zeros needs no case of its own.
    return torch.cat([output <= TAU * output.mean() for output in outputs]).double().mean().item()
