"""Activations by name, for command lines and configs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from adalin._registry import Registry, check_entry
from adalin.nn._adalin import AdaLin
from adalin.nn._bases import BASES, MODULES, Base, make_base
from adalin.nn._concatenated import Concatenated, CReLU, DeepFourier
from adalin.nn._interpolation import Interpolation
from adalin.nn._leaky import IntervalDropout, SmoothLeaky
from adalin.nn._per_neuron import PerNeuron

Option = str | bool | int | float
"""Value of an option that a text can set."""


@dataclass(frozen=True)
class ActivationEntry:
    """A registered activation."""

    build: Callable[..., nn.Module]
    """Builder of the layer: (num_parameters, dim, **options) -> the layer; either of the two may be None."""
    summary: str
    """One line about it."""
    title: str
    """Name in figures: "Leaky ReLU"."""
    expansion: int = 1
    """Outputs per neuron: the next layer's input is this many times as wide."""
    paper: str = ""
    """Paper that it comes from."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """Options of `build` that a method's text can set, as in `interpolation:base=tanh`, with their defaults."""


class Fixed(nn.Module):
    """A base for which torch has no module."""

    def __init__(self, base: Base) -> None:
        super().__init__()
        self.base = base

    def forward(self, input: Tensor) -> Tensor:
        return self.base.phi(input)

    def extra_repr(self) -> str:
        return self.base.name


def make_activation(
    activation: str | Callable[..., nn.Module],
    num_parameters: int | None = None,
    *,
    dim: int | None = None,
    **options: Any,
) -> nn.Module:
    """The activation layer for a width and an axis, from a registered name, a class, or a callable that returns one.

    Of classes and callables only adalin's own get the width and the axis; all get the options.

    Examples:
        >>> from adalin import make_activation
        >>> make_activation("adalin-tanh", 100)
        AdaLin(tanh, num_parameters=100, dim=1, gate=cosine)
        >>> make_activation("leaky_relu", negative_slope=0.7)
        LeakyReLU(negative_slope=0.7)
    """
    if isinstance(activation, str):
        layer = ACTIVATIONS.get(activation).build(num_parameters, dim, **options)
        if not isinstance(layer, nn.Module):
            raise TypeError(f"the activation {activation!r} must be an nn.Module, and its function made {layer!r}")
        return layer
    if not callable(activation):
        raise TypeError(f"an activation is a registered name, a class or a callable, not {activation!r}")
    if isinstance(activation, type) and issubclass(activation, PerNeuron):
        options = {"num_parameters": num_parameters, "dim": dim, **options}
    elif isinstance(activation, type) and issubclass(activation, Concatenated) and dim is not None:
        options = {"dim": dim, **options}
    return activation(**options)


def activations() -> Mapping[str, ActivationEntry]:
    """Every registered activation by name."""
    return ACTIVATIONS.listing()


def register_activation(
    name: str,
    build: Callable[..., nn.Module],
    summary: str,
    *,
    title: str = "",
    expansion: int = 1,
    paper: str = "",
    options: Mapping[str, Option] | None = None,
) -> None:
    """Make an activation known by name; `build(num_parameters, dim, **options)` returns the layer.

    It is a method too, whose text sets `options`, given with their defaults. Figures show its `title`, or its name.
    """
    check_entry("an activation", build, summary)
    if not isinstance(expansion, int) or isinstance(expansion, bool) or expansion < 1:
        raise ValueError(f"the expansion of an activation must be a whole number >= 1, not {expansion!r}")
    options = dict(options or {})
    for option, default in options.items():
        if not (isinstance(option, str) and option.isidentifier() and isinstance(default, Option)):
            raise ValueError(f"option {option!r} of an activation needs a default: a text, a number or a bool")
    entry = ActivationEntry(build, summary, title or str(name), expansion, paper, MappingProxyType(options))
    ACTIVATIONS.register(name, entry)


def _fixed(name: str, num_parameters: int | None, dim: int | None, inplace: bool = False, **options: Any) -> nn.Module:
    base = make_base(name, **options)  # says what is wrong with the options
    torchs = next((module for module, (known, _) in MODULES.items() if known == name), None)
    return Fixed(base) if torchs is None else torchs(**options)


def _plain(
    layer: Callable[..., nn.Module], num_parameters: int | None, dim: int | None, inplace: bool = False, **options: Any
) -> nn.Module:
    return layer(**options)


def _per_neuron(
    layer: type[PerNeuron], defaults: dict[str, Any], num_parameters: int | None, dim: int | None, **options: Any
) -> nn.Module:
    return layer(num_parameters=num_parameters, dim=dim, **{**defaults, **options})


def _adalin(
    defaults: dict[str, Any],
    num_parameters: int | None,
    dim: int | None,
    init: float | str | Callable[[Tensor], Any] | None = "uniform",
    learned: bool = True,
    **options: Any,
) -> nn.Module:
    if isinstance(init, str):
        try:  # a method's text has numbers as texts, where the default is one
            init = None if init == "uniform" else float(init)
        except ValueError:
            raise ValueError(f"init is a number or 'uniform', for U(0, 1), not {init!r}") from None
    layer = _per_neuron(AdaLin, {"init": init, **defaults}, num_parameters, dim, **options)
    assert isinstance(layer, AdaLin)
    layer.alpha.requires_grad = learned  # also where the width is not known yet
    return layer


_ALPHAS: dict[str, Option] = {"init": "uniform", "learned": True}
"""Options of how alphas begin, and whether they are trained, with their defaults."""


def _concatenated(
    layer: type[Concatenated], num_parameters: int | None, dim: int | None, inplace: bool = False
) -> nn.Module:
    return layer() if dim is None else layer(dim=dim)


ADALIN = "Razavi Rohani et al. 2025"
PAPERS = {
    "relu": "Nair & Hinton 2010",
    "gelu": "Hendrycks & Gimpel 2016",
    "gelu_tanh": "Hendrycks & Gimpel 2016",
    "silu": "Elfwing et al. 2018",
    "mish": "Misra 2020",
    "elu": "Clevert et al. 2016",
    "selu": "Klambauer et al. 2017",
    "celu": "Barron 2017",
    "leaky_relu": "Maas et al. 2013",
    "hardswish": "Howard et al. 2019",
}
TITLES = {
    "relu": "ReLU",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "gelu": "GELU",
    "gelu_tanh": "GELU (tanh)",
    "silu": "SiLU",
    "mish": "Mish",
    "elu": "ELU",
    "selu": "SELU",
    "celu": "CELU",
    "leaky_relu": "Leaky ReLU",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "hardswish": "Hardswish",
    "hardtanh": "Hardtanh",
    "relu6": "ReLU6",
    "sin": "Sine",
    "identity": "Identity",
}

ACTIVATIONS: Registry[ActivationEntry] = Registry("activation")
for _name in BASES:
    _title = TITLES.get(_name, _name)
    register_activation(_name, partial(_fixed, _name), f"{_name}, fixed", title=_title, paper=PAPERS.get(_name, ""))
register_activation("linear", partial(_fixed, "identity"), "no activation: a deep linear network", title="Deep linear")
register_activation(
    "smooth-leaky",
    partial(_plain, SmoothLeaky),
    "a leaky ReLU without a kink",
    title="Smooth-Leaky",
    paper="Lillo & Cheney 2026",
    options={"slope": 0.1, "sharpness": 5.0, "width": 3.0},
)
register_activation(
    "aid",
    partial(_plain, IntervalDropout),
    "interval-wise dropout: ReLU, or at random what it drops",
    title="AID",
    paper="Park et al. 2025",
    options={"p": 0.9},
)
register_activation(
    "rrelu",
    partial(_plain, nn.RReLU),
    "leaky ReLU with a slope drawn anew for each number",
    title="RReLU",
    paper="Xu et al. 2015",
    options={"lower": 0.125, "upper": 1 / 3},
)
register_activation(
    "adalin",
    partial(_adalin, {}),
    "AdaLin: a learned linear term where the base saturates",
    title="AdaLin",
    paper=ADALIN,
    options={"base": "relu", "gate": "cosine", **_ALPHAS},
)
for _name in BASES:
    _build = partial(_adalin, {"base": _name})
    register_activation(
        f"adalin-{_name}",
        _build,
        f"AdaLin on {_name}",
        title=f"AdaLin ({TITLES.get(_name, _name)})",
        paper=ADALIN,
        options={"gate": "cosine", **_ALPHAS},
    )
register_activation(
    "prelu",
    partial(_per_neuron, AdaLin, {"init": 0.25}),
    "PReLU, one slope per neuron from 0.25",
    title="PReLU",
    paper="He et al. 2015",
)
register_activation(
    "interpolation",
    partial(_per_neuron, Interpolation, {}),
    "s x + (1 - s) phi(x), s learned per neuron",
    title="Interpolation",
    paper=ADALIN,
    options={"base": "relu"},
)
register_activation(
    "crelu",
    partial(_concatenated, CReLU),
    "[relu(x), relu(-x)]",
    title="CReLU",
    expansion=2,
    paper="Shang et al. 2016; Abbas et al. 2023",
)
register_activation(
    "fourier",
    partial(_concatenated, DeepFourier),
    "deep Fourier features, [sin(x), cos(x)]",
    title="Deep Fourier",
    expansion=2,
    paper="Lewandowski et al. 2024",
)
