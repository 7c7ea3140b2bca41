"""Gradient norm: the L2 norm of the gradient of the mean cross-entropy over the task's training data.

    || grad_theta (1/N) sum_n CE(f_theta(x_n), y_n) ||

over all parameters that are trained, alphas too, at the end of the task, in eval mode. A network whose gradient
vanishes while its loss is high can no longer learn (Abbas et al. 2023, "Loss of Plasticity in Continual Deep RL").
"""

from adalin.metrics._probe import Probe
from adalin.metrics._weight_norm import norm


def gradient_norm(probe: Probe) -> float:
    return norm(probe.gradient.values())
