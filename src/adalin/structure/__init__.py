"""What a network consists of, whoever wrote it and whoever trains it."""

from adalin.structure._activations import LEFT_ALONE, Nonlinearity, activation_of, function_names, mentions
from adalin.structure._axis import Axis, axis_of
from adalin.structure._hidden import is_hidden
from adalin.structure._inplace import escapes, is_aliased, later_users
from adalin.structure._network import Network, Part
from adalin.structure._owners import TRANSFORMER_LAYERS, Owner, Site, Structure
from adalin.structure._trace import UntraceableError, Variant, parameters_of, trace
from adalin.structure._units import Edge, Units

__all__ = [
    "LEFT_ALONE",
    "TRANSFORMER_LAYERS",
    "Axis",
    "Edge",
    "Network",
    "Nonlinearity",
    "Owner",
    "Part",
    "Site",
    "Structure",
    "Units",
    "UntraceableError",
    "Variant",
    "activation_of",
    "axis_of",
    "escapes",
    "function_names",
    "is_aliased",
    "is_hidden",
    "later_users",
    "mentions",
    "parameters_of",
    "trace",
]
