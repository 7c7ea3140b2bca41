"""Methods: an optimiser, activation and norm of the hidden layers, and rules that act while a network trains."""

from adalin.methods._acting import ActingRules
from adalin.methods._activations import Activation, ActivationMethod
from adalin.methods._cbp import ContinualBackprop
from adalin.methods._l2 import L2
from adalin.methods._l2_init import L2Init
from adalin.methods._method import Method, methods, register_method
from adalin.methods._norm import LayerNorm, Norm, RMSNorm
from adalin.methods._redo import ReDo
from adalin.methods._replace import refusal, replace_units, replaceable, uniform
from adalin.methods._rule import NEEDS, Need, Now, Rule, Rules, check_together, overrides
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb

__all__ = [
    "L2",
    "NEEDS",
    "ActingRules",
    "Activation",
    "ActivationMethod",
    "ContinualBackprop",
    "L2Init",
    "LayerNorm",
    "Method",
    "Need",
    "Norm",
    "Now",
    "RMSNorm",
    "ReDo",
    "Rule",
    "Rules",
    "Scratch",
    "ShrinkPerturb",
    "check_together",
    "methods",
    "overrides",
    "refusal",
    "register_method",
    "replace_units",
    "replaceable",
    "uniform",
]
