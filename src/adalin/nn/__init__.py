"""Activations that keep networks plastic, and `convert`, which puts them into existing models."""

from adalin.nn._adalin import AdaLin
from adalin.nn._bases import BASES, MODULES, Base, as_base, bases, make_base, module_base
from adalin.nn._concatenated import Concatenated, CReLU, DeepFourier
from adalin.nn._convert import Conversion, Site, convert
from adalin.nn._fused import derivative_into, gate_into, is_prelu
from adalin.nn._gates import GATES
from adalin.nn._interpolation import Interpolation
from adalin.nn._native import native_form
from adalin.nn._param_groups import param_groups, split_parameters
from adalin.nn._per_neuron import PerNeuron
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
    "GATES",
    "MODULES",
    "ActivationEntry",
    "AdaLin",
    "Base",
    "CReLU",
    "Concatenated",
    "Conversion",
    "DeepFourier",
    "Fixed",
    "Interpolation",
    "Option",
    "PerNeuron",
    "Site",
    "activations",
    "as_base",
    "bases",
    "convert",
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
