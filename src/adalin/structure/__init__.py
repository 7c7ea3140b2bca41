"""What a network consists of, whoever wrote it and whoever trains it; nothing here changes a model.

`find_units(model, *example)` runs any model once and returns its hidden layers, a list of `Units`: the name of the
activation (that of `convert`), `width`, `axis` (from the end), and as `Edge`s, by the names of parameters, what feeds
them (`incoming`, `biases`, `gains`, `shifts`, `alphas`; `means` and `variances` are buffers), what they feed
(`outgoing`), and what else has their index (`others`). `entangled` says in half a sentence why a unit cannot be
replaced by itself; where it is empty, it can. `Edge.of(tensor, width)` is a view of one parameter, gradient or moment
as (units, copies, repeat, ...). `watch_activations(model, see)` gives inputs and outputs of the same activations while
a model runs.

`Structure` and what is with it read the model's code instead, without an example.
"""

from adalin.structure._activations import LEFT_ALONE, Nonlinearity, activation_of
from adalin.structure._axis import Axis, axis_of
from adalin.structure._calls import ActivationCall, watch_activations
from adalin.structure._find import RESIDUAL, find_units
from adalin.structure._hidden import MAYBE, OUTPUT, UNSEEN, is_formula, why_not_hidden
from adalin.structure._inplace import escapes, is_aliased, later_users
from adalin.structure._network import Network, Part
from adalin.structure._owners import TRANSFORMER_LAYERS, Owner, Site, Stays, Structure, is_transformer_layer
from adalin.structure._source import Call, Source, made_call, parse
from adalin.structure._trace import UntraceableError, Variant
from adalin.structure._undisturbed import undisturbed
from adalin.structure._units import Edge, Units

__all__ = [
    "LEFT_ALONE",
    "MAYBE",
    "OUTPUT",
    "RESIDUAL",
    "TRANSFORMER_LAYERS",
    "UNSEEN",
    "ActivationCall",
    "Axis",
    "Call",
    "Edge",
    "Network",
    "Nonlinearity",
    "Owner",
    "Part",
    "Site",
    "Source",
    "Stays",
    "Structure",
    "Units",
    "UntraceableError",
    "Variant",
    "activation_of",
    "axis_of",
    "escapes",
    "find_units",
    "is_aliased",
    "is_formula",
    "is_transformer_layer",
    "later_users",
    "made_call",
    "parse",
    "undisturbed",
    "watch_activations",
    "why_not_hidden",
]
