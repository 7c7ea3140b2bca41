"""Networks that keep learning: AdaLin for any PyTorch model.

Names are imported when they are first used, so that the command line need not wait for torch to say what it can do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adalin.engine import Attached, attach
    from adalin.executors import load_model, run
    from adalin.monitor import Monitor, examine, probe
    from adalin.nn import (
        ActivationEntry,
        AdaLin,
        CReLU,
        DeepFourier,
        Interpolation,
        activations,
        bases,
        make_activation,
        param_groups,
        register_activation,
    )
    from adalin.surgery import Conversion, ConvertedSite, convert

__version__ = "0.1.0"

__all__ = [
    "ActivationEntry",
    "AdaLin",
    "Attached",
    "CReLU",
    "Conversion",
    "ConvertedSite",
    "DeepFourier",
    "Interpolation",
    "Monitor",
    "activations",
    "attach",
    "bases",
    "convert",
    "examine",
    "load_model",
    "make_activation",
    "param_groups",
    "probe",
    "register_activation",
    "run",
]

_ROOMS = {
    **dict.fromkeys(("attach", "Attached"), "engine"),
    **dict.fromkeys(("load_model", "run"), "executors"),
    **dict.fromkeys(("convert", "Conversion", "ConvertedSite"), "surgery"),
    **dict.fromkeys(("Monitor", "examine", "probe"), "monitor"),
}
"""Where names come from that are not of `adalin.nn`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"adalin.{_ROOMS.get(name, 'nn')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
