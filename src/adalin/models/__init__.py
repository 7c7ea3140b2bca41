"""The networks of the benchmarks."""

from adalin.models._build import MODELS, Model, check_model, make_model, models, register_model, trial_build
from adalin.models._cnn import cnn
from adalin.models._init import INITS
from adalin.models._mlp import mlp
from adalin.models._resnet import resnet18
from adalin.models._units import hidden_layers

__all__ = [
    "INITS",
    "MODELS",
    "Model",
    "check_model",
    "cnn",
    "hidden_layers",
    "make_model",
    "mlp",
    "models",
    "register_model",
    "resnet18",
    "trial_build",
]
