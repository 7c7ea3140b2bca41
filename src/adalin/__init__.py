"""Networks that keep learning: AdaLin for any PyTorch model."""

from adalin.nn import (
    Activation,
    AdaLin,
    Conversion,
    CReLU,
    DeepFourier,
    Interpolation,
    Site,
    activations,
    bases,
    convert,
    make_activation,
    param_groups,
    register_activation,
)

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
