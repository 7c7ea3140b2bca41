"""Methods that choose the hidden layers' activation: a registered one, with options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from adalin.methods._norm import Norm
from adalin.nn import ACTIVATIONS, BASES, Option, make_activation

CHOICES = {"granularity": ("neuron", "layer", "network"), "match": ("units", "params", "half")}
"""Options that are a method's own, which no layer gets."""


@dataclass(frozen=True)
class ActivationMethod:
    """An activation as a method: the meaning of a method's name."""

    entry: str | None
    """Name of the activation; None for the one that the option `base` names."""
    summary: str
    """One line about it."""
    title: str
    """Name in figures; empty where the base's own is enough."""
    paper: str = ""
    """Paper that it comes from."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """Options with their defaults."""
    fixed: Mapping[str, Option] = field(default_factory=dict)
    """Options of the activation that the method itself sets."""


def registered(name: str) -> ActivationMethod:
    """The method that a registered activation is."""
    entry = ACTIVATIONS.get(name)
    options = dict(entry.options)
    if name == "adalin":
        options["granularity"] = "neuron"
    if entry.expansion > 1:
        options["match"] = "units"
    return ActivationMethod(name, entry.summary, entry.title, entry.paper, options)


ACTIVATION_METHODS = {
    "baseline": ActivationMethod(None, "the base activation alone", "", options={"base": "relu"}),
    **{name: registered(name) for name in ("adalin", "crelu", "fourier", "linear", "prelu")},
    # The tuned slopes of the paper are 0.6 to 0.9.
    "leaky_relu": ActivationMethod(
        "leaky_relu",
        "leaky ReLU with a large fixed slope",
        "Leaky ReLU",
        "Lillo & Cheney 2026",
        options={"negative_slope": 0.7},
    ),
    "interpolation": registered("interpolation"),
    "no-gate": ActivationMethod(
        "adalin",
        "AdaLin without its gate: phi(x) + alpha x",
        "AdaLin without gate",
        ACTIVATIONS.get("adalin").paper,
        options={"base": "relu"},
        fixed={"gate": "none"},
    ),
}
"""Those that have a name or options of their own, and those to name first."""


@dataclass(frozen=True, init=False, repr=False)
class Activation:
    """The activation of every hidden layer: a method's name with its options.

    AdaLin's `granularity` is one alpha per "neuron", per "layer", or one for the whole "network". Where a neuron has
    two outputs, `match` says what stays as in the baseline: the hidden layers' "units" (the paper), the network's
    number of "params", or a hidden layer's outputs, with "half" the units.
    """

    name: str
    """The method's name."""
    values: tuple[tuple[str, Option], ...]
    """Every option with its value, in the order of their declaration."""
    norm: Norm | None
    """Norm of its inputs; None without one."""

    def __init__(self, name: str = "baseline", /, norm: Norm | None = None, **options: Option) -> None:
        known = activation_method(name).options
        for key in options:
            if key not in known:
                raise ValueError(f"the activation {name!r} has no option {key!r}; it has: {', '.join(known) or 'none'}")
        values = {**known, **options}
        for key, choices in CHOICES.items():
            if key in values and values[key] not in choices:
                *first, last = map(repr, choices)
                raise ValueError(f"{key} is {', '.join(first)} or {last}, not {values[key]!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", tuple(values.items()))
        object.__setattr__(self, "norm", norm)

    def __repr__(self) -> str:
        options = [f"{key}={value!r}" for key, value in self.values]
        options += [] if self.norm is None else [f"norm={self.norm!r}"]
        return f"Activation({', '.join([repr(self.name), *options])})"

    @property
    def options(self) -> dict[str, Option]:
        """Every option with its value."""
        return dict(self.values)

    @property
    def entry(self) -> str:
        """Name of the activation among the registered ones."""
        return activation_method(self.name).entry or str(self.options["base"])

    @property
    def expansion(self) -> int:
        """Outputs per neuron."""
        return ACTIVATIONS.get(self.entry).expansion

    @property
    def match(self) -> str | None:
        """The option of that name; None where a neuron has one output."""
        match = self.options.get("match")
        return None if match is None else str(match)

    def layers(self) -> Callable[..., nn.Module]:
        """Builder of one network's activations: (width, dim) -> layer, called once for each hidden layer in turn.

        With a norm, a layer is an nn.Sequential of it and the activation.
        """
        make, norm = self._activations(), self.norm
        if norm is None:
            return make
        return lambda width, dim=1: nn.Sequential(norm.layer(width), make(width, dim))

    def with_norm(self, norm: Norm | None) -> "Activation":
        """The same with a norm before it."""
        return Activation(self.name, norm=norm, **self.options)

    def _activations(self) -> Callable[..., nn.Module]:
        entry, options = self.entry, self._layer_options()
        granularity = self.options.get("granularity", "neuron")
        if granularity == "neuron":
            return lambda width, dim=1: make_activation(entry, width, dim=dim, **options)
        if granularity == "layer":
            return lambda width, dim=1: make_activation(entry, 1, dim=dim, **options)
        shared = make_activation(entry, 1, **options).alpha
        return lambda width, dim=1: make_activation(entry, dim=dim, alpha=shared, **options)

    def _layer_options(self) -> dict[str, Any]:
        method = activation_method(self.name)
        names_entry = {"base"} if method.entry is None else set()
        own = names_entry | CHOICES.keys()
        return {key: value for key, value in self.values if key not in own} | dict(method.fixed)


def activation_method(name: str) -> ActivationMethod:
    """The method of a name, which may be that of any registered activation."""
    return ACTIVATION_METHODS[name] if name in ACTIVATION_METHODS else registered(name)


def named_activation(name: str) -> tuple[str, dict[str, str]]:
    """The method that a name stands for, and the options in it: a base's is the baseline's, `adalin-tanh` AdaLin's."""
    base = name.removeprefix("adalin-")
    if base in BASES and name not in ACTIVATION_METHODS:
        return "baseline" if base == name else "adalin", {"base": base}
    return name, {}


def short_name(activation: Activation) -> tuple[str, set[str]]:
    """The shortest name that stands for it, and which options are in the name."""
    base = activation.options.get("base")
    shorter = {"baseline": f"{base}", "adalin": f"adalin-{base}"}.get(activation.name)
    # The base leaky_relu has another slope than the method of that name.
    if shorter is None or base == "relu" or shorter in ACTIVATION_METHODS:
        return activation.name, set()
    return shorter, {"base"}
