"""Methods that choose the hidden layers' activation."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from adalin.nn import activations, make_activation

ADALIN = "Razavi Rohani et al. 2025"


@dataclass(frozen=True)
class Activation:
    """The activation of every hidden layer."""

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""

    @property
    def entry(self) -> str:
        """Its name among the activations."""
        return self.name

    @property
    def options(self) -> dict[str, Any]:
        """What `make_activation` gets beside the name, the width and the axis."""
        return {}

    @property
    def expansion(self) -> int:
        """How many outputs each neuron has."""
        return activations()[self.entry].expansion

    def layers(self) -> Callable[..., nn.Module]:
        """What builds one network's activations: (width, dim) -> layer, called once for each hidden layer in turn."""
        return lambda width, dim=1: make_activation(self.entry, width, dim=dim, **self.options)


@dataclass(frozen=True)
class Baseline(Activation):
    name = "baseline"
    summary = "the base activation alone"
    base: str = "relu"

    @property
    def entry(self) -> str:
        return self.base


@dataclass(frozen=True)
class AdaLin(Activation):
    """AdaLin with one alpha per neuron, per layer, or for the whole network."""

    name = "adalin"
    summary = "AdaLin: a learned linear term where the base saturates"
    paper = ADALIN
    base: str = "relu"
    gate: str = "cosine"
    granularity: str = "neuron"

    def __post_init__(self) -> None:
        if self.granularity not in ("neuron", "layer", "network"):
            raise ValueError(f"granularity is 'neuron', 'layer' or 'network', not {self.granularity!r}")

    @property
    def options(self) -> dict[str, Any]:
        return {"base": self.base, "gate": self.gate}

    def layers(self) -> Callable[..., nn.Module]:
        if self.granularity == "neuron":
            return super().layers()
        if self.granularity == "layer":
            return lambda width, dim=1: make_activation("adalin", 1, dim=dim, **self.options)
        shared = make_activation("adalin", 1, **self.options).alpha
        return lambda width, dim=1: make_activation("adalin", dim=dim, alpha=shared, **self.options)


@dataclass(frozen=True)
class NoGate(Activation):
    name = "no-gate"
    summary = "AdaLin without its gate: phi(x) + alpha x"
    paper = ADALIN
    base: str = "relu"

    @property
    def entry(self) -> str:
        return "adalin"

    @property
    def options(self) -> dict[str, Any]:
        return {"base": self.base, "gate": "none"}


@dataclass(frozen=True)
class Interpolation(Activation):
    name = "interpolation"
    summary = "s x + (1 - s) phi(x), s learned per neuron"
    paper = ADALIN
    base: str = "relu"

    @property
    def options(self) -> dict[str, Any]:
        return {"base": self.base}


@dataclass(frozen=True)
class Doubled(Activation):
    """Two outputs per neuron. `match` says what stays as in the baseline: the hidden layers' "units" (the paper), the
    network's number of "params", or a hidden layer's outputs, with "half" the units.
    """

    match: str = "units"

    def __post_init__(self) -> None:
        if self.match not in ("units", "params", "half"):
            raise ValueError(f"match is 'units', 'params' or 'half', not {self.match!r}")


@dataclass(frozen=True)
class CReLU(Doubled):
    name = "crelu"
    summary = "[relu(x), relu(-x)]"
    paper = "Shang et al. 2016; Abbas et al. 2023"


@dataclass(frozen=True)
class Fourier(Doubled):
    name = "fourier"
    summary = "deep Fourier features, [sin(x), cos(x)]"
    paper = "Lewandowski et al. 2024"


@dataclass(frozen=True)
class Linear(Activation):
    name = "linear"
    summary = "a deep linear network"


@dataclass(frozen=True)
class PReLU(Activation):
    name = "prelu"
    summary = "PReLU, one slope per neuron from 0.25"
    paper = "He et al. 2015"


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """The tuned slopes of Lillo & Cheney are 0.6 to 0.9."""

    name = "leaky_relu"
    summary = "leaky ReLU with a large fixed slope"
    paper = "Lillo & Cheney 2026"
    negative_slope: float = 0.7

    def __post_init__(self) -> None:
        if not math.isfinite(self.negative_slope):
            raise ValueError(f"the negative_slope of leaky_relu must be a finite number, not {self.negative_slope}")

    @property
    def options(self) -> dict[str, Any]:
        return {"negative_slope": self.negative_slope}


@dataclass(frozen=True)
class Registered(Activation):
    """Any registered activation, by its own name."""

    activation: str = ""

    @property
    def entry(self) -> str:
        return self.activation
