"""Methods for tests of training: every registered one, the options that change what is computed, and combinations."""

from adalin.methods import methods
from adalin.nn import bases

METHODS = [
    *methods(),
    *(f"adalin-{base}" for base in bases() if base != "relu"),
    *("tanh", "gelu", "sigmoid", "softplus"),
    *(f"adalin-tanh:gate={gate}" for gate in ("linear", "quadratic", "none")),
    *("adalin:granularity=layer", "adalin:granularity=network", "adalin-tanh:granularity=network"),
    *("crelu:match=params", "fourier:match=half", "interpolation:base=tanh", "no-gate:base=gelu"),
    *("adalin+l2", "adalin-tanh+shrink-perturb", "crelu+l2", "l2:strength=0.1+shrink-perturb:noise=0.1"),
]
