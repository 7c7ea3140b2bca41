"""What is measured of a network at the end of a task; one file per metric."""

from adalin.metrics._activations import register_hidden_activation
from adalin.metrics._layers import Layer
from adalin.metrics._probe import Probe
from adalin.metrics._registry import Metric, measure, metrics, register_metric

__all__ = ["Layer", "Metric", "Probe", "measure", "metrics", "register_hidden_activation", "register_metric"]
