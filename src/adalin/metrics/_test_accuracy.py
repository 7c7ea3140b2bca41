"""Accuracy on the task's test set at the end of the task, in eval mode; null for a task without one."""

from adalin.metrics._probe import Probe


def test_accuracy(probe: Probe) -> float | None:
    return probe.test_accuracy
