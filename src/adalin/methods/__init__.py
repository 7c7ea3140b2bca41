"""Methods: an optimiser, activation and norm of the hidden layers, and rules that act while a network trains."""

from adalin.methods._acting import ActingRules
from adalin.methods._activations import Activation, ActivationMethod
from adalin.methods._cbp import ContinualBackprop
from adalin.methods._fire import FIRE
from adalin.methods._hare_tortoise import HareTortoise
from adalin.methods._l2 import L2
from adalin.methods._l2_init import L2Init
from adalin.methods._list import method_rows
from adalin.methods._method import Method, methods, register_method
from adalin.methods._norm import LayerNorm, Norm, RMSNorm
from adalin.methods._parseval import Parseval
from adalin.methods._redo import ReDo
from adalin.methods._replace import refusal, replace_units, replaceable, uniform
from adalin.methods._resets import FullReset, HeadReset, OptimizerReset, TimedReset
from adalin.methods._rule import NEEDS, Need, Now, Rule, Rules, check_together, overrides
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb
from adalin.methods._upgd import UPGD
from adalin.methods._wasserstein import Wasserstein
from adalin.methods._weight_clip import WeightClip

__all__ = [
    "FIRE",
    "L2",
    "NEEDS",
    "UPGD",
    "ActingRules",
    "Activation",
    "ActivationMethod",
    "ContinualBackprop",
    "FullReset",
    "HareTortoise",
    "HeadReset",
    "L2Init",
    "LayerNorm",
    "Method",
    "Need",
    "Norm",
    "Now",
    "OptimizerReset",
    "Parseval",
    "RMSNorm",
    "ReDo",
    "Rule",
    "Rules",
    "Scratch",
    "ShrinkPerturb",
    "TimedReset",
    "Wasserstein",
    "WeightClip",
    "check_together",
    "method_rows",
    "methods",
    "overrides",
    "refusal",
    "register_method",
    "replace_units",
    "replaceable",
    "uniform",
]
