"""What is measured of a network at the end of a task: performance, rank, units and weights."""

from adalin.metrics import _performance, _rank, _units, _weights  # noqa: F401, which register them in this order
from adalin.metrics._activations import hidden_activations, register_hidden_activation
from adalin.metrics._network_on_data import NEEDS, NetworkOnData
from adalin.metrics._rank import effective_rank_of, srank_of
from adalin.metrics._recorder import Layer
from adalin.metrics._registry import Metric, is_accuracy, measure, metrics, register_metric
from adalin.metrics._units import TAU, dormant_units, sign_entropies
from adalin.structure import undisturbed

__all__ = [
    "NEEDS",
    "TAU",
    "Layer",
    "Metric",
    "NetworkOnData",
    "dormant_units",
    "effective_rank_of",
    "hidden_activations",
    "is_accuracy",
    "measure",
    "metrics",
    "register_hidden_activation",
    "register_metric",
    "sign_entropies",
    "srank_of",
    "undisturbed",
]
