"""Activations that keep networks plastic, and `convert`, which puts them into existing models."""

from adalin.nn._adalin import AdaLin
from adalin.nn._bases import bases
from adalin.nn._concatenated import CReLU, DeepFourier
from adalin.nn._convert import Conversion, Site, convert
from adalin.nn._interpolation import Interpolation
from adalin.nn._param_groups import param_groups
from adalin.nn._registry import Activation, activations, make_activation, register_activation

__all__ = [
    "Activation",
    "AdaLin",
    "CReLU",
    "Conversion",
    "DeepFourier",
    "Interpolation",
    "Site",
    "activations",
    "bases",
    "convert",
    "make_activation",
    "param_groups",
    "register_activation",
]
