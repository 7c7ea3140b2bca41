"""Activations that keep networks plastic, and `convert`, which puts them into existing models."""

from adalin.nn._adalin import AdaLin as AdaLin
from adalin.nn._bases import bases as bases
from adalin.nn._concatenated import CReLU as CReLU
from adalin.nn._concatenated import DeepFourier as DeepFourier
from adalin.nn._convert import Conversion as Conversion
from adalin.nn._convert import Site as Site
from adalin.nn._convert import convert as convert
from adalin.nn._interpolation import Interpolation as Interpolation
from adalin.nn._param_groups import param_groups as param_groups
from adalin.nn._registry import ActivationEntry as ActivationEntry
from adalin.nn._registry import activations as activations
from adalin.nn._registry import make_activation as make_activation
from adalin.nn._registry import register_activation as register_activation
