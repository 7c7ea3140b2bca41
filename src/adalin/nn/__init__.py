"""Activations that keep networks plastic."""

from adalin.nn._adalin import AdaLin
from adalin.nn._bases import BASES, FUNCTIONS, MODULES, Base, as_base, bases, make_base, module_base
from adalin.nn._concatenated import Concatenated, CReLU, DeepFourier
from adalin.nn._fused import derivative_into, gate_into, is_prelu
from adalin.nn._gates import GATES, Gate, as_gate
from adalin.nn._interpolation import Interpolation
from adalin.nn._leaky import IntervalDropout, SmoothLeaky
from adalin.nn._native import native_form
from adalin.nn._norms import SampleLayerNorm, SampleRMSNorm
from adalin.nn._param_groups import param_groups, split_parameters
from adalin.nn._per_neuron import Init, PerNeuron, check_init
from adalin.nn._registry import (
    ACTIVATIONS,
    ActivationEntry,
    Fixed,
    Option,
    activations,
    make_activation,
    register_activation,
)

__all__ = [
    "ACTIVATIONS",
    "BASES",
    "FUNCTIONS",
    "GATES",
    "MODULES",
    "ActivationEntry",
    "AdaLin",
    "Base",
    "CReLU",
    "Concatenated",
    "DeepFourier",
    "Fixed",
    "Gate",
    "Init",
    "Interpolation",
    "IntervalDropout",
    "Option",
    "PerNeuron",
    "SampleLayerNorm",
    "SampleRMSNorm",
    "SmoothLeaky",
    "activations",
    "as_base",
    "as_gate",
    "bases",
    "check_init",
    "derivative_into",
    "gate_into",
    "is_prelu",
    "make_activation",
    "make_base",
    "module_base",
    "native_form",
    "param_groups",
    "register_activation",
    "split_parameters",
]
