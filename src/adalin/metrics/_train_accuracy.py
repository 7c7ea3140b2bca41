"""Accuracy on the probe's training images at the end of the task, in eval mode."""

from adalin.metrics._probe import Probe


def train_accuracy(probe: Probe) -> float:
    return probe.accuracy
