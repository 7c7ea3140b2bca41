"""Accuracy among the classes that the task's training data has, on those of the test images that are of them.

Only outputs for these classes count; where they are all, it is the test accuracy. Null without a test set.
"""

import torch

from adalin.metrics._probe import Probe


def seen_test_accuracy(probe: Probe) -> float | None:
    if probe.test is None or probe.test_logits is None:
        return None
    classes, labels = probe.labels.unique().cpu(), probe.test[1]
    seen = torch.isin(labels, classes)
    if not seen.any():
        return None
    answers = classes[probe.test_logits[seen][:, classes].argmax(1)]
    return (answers == labels[seen]).double().mean().item()
