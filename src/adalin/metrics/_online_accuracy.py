"""Online accuracy of a task: the mean over its batches of the accuracy on a batch *before* the update with it.

    (1 / B) * sum_b accuracy(theta_b, batch_b)

Razavi Rohani et al. 2025 plot it for every benchmark and select hyper-parameters by it; that the accuracy is taken
before the update is the protocol of Kumar et al. 2023. Training counts it, so that it costs nothing here.
"""

from adalin.metrics._probe import Probe


def online_accuracy(probe: Probe) -> float | None:
    return probe.online_accuracy
