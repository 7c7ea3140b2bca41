"""The networks of the benchmarks."""

from adalin.models._build import make_model, models, register_model
from adalin.models._cnn import cnn
from adalin.models._init import INITS
from adalin.models._mlp import mlp

__all__ = ["INITS", "cnn", "make_model", "mlp", "models", "register_model"]
