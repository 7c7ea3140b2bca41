"""Mean cross-entropy in nats on the probe's training images at the end of the task, in eval mode."""

from adalin.metrics._probe import Probe


def loss(probe: Probe) -> float:
    return probe.loss
