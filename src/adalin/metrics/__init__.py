"""What is measured of a network at the end of a task: performance, rank, units and weights."""

from adalin.metrics import _performance, _rank, _units, _weights  # noqa: F401, which register them in this order
from adalin.metrics._activations import register_hidden_activation
from adalin.metrics._probe import NEEDS, Probe
from adalin.metrics._recorder import Layer
from adalin.metrics._registry import Metric, is_accuracy, measure, metrics, register_metric

__all__ = [
    "NEEDS",
    "Layer",
    "Metric",
    "Probe",
    "is_accuracy",
    "measure",
    "metrics",
    "register_hidden_activation",
    "register_metric",
]
