"""What is measured of a network at the end of a task; one file per metric."""

from adalin.metrics._activations import register_hidden_activation as register_hidden_activation
from adalin.metrics._layers import Layer as Layer
from adalin.metrics._probe import Probe as Probe
from adalin.metrics._registry import Metric as Metric
from adalin.metrics._registry import measure as measure
from adalin.metrics._registry import metrics as metrics
from adalin.metrics._registry import register_metric as register_metric
