"""A method: one activation for the hidden layers and any number of rules that act on the weights."""

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import torch

from adalin.methods._activations import (
    Activation,
    AdaLin,
    Baseline,
    CReLU,
    Fourier,
    Interpolation,
    LeakyReLU,
    Linear,
    NoGate,
    PReLU,
    Registered,
)
from adalin.methods._l2 import L2
from adalin.methods._rule import Rule
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb
from adalin.nn import activations, bases
from adalin.nn._bases import did_you_mean

Part = Activation | Rule
_Class = TypeVar("_Class", bound=type[Part])

_PARTS: dict[str, type[Part]] = {}


def register_method(part: _Class) -> _Class:
    """Make an activation or a rule known by its `name`; a frozen dataclass, whose fields are its options.

    Also a decorator.
    """
    if "__dataclass_fields__" not in vars(part):
        raise TypeError(f"{part.__name__} must be a dataclass: write @dataclass(frozen=True) above it")
    for option in fields(part):
        if type(option.default) not in _KINDS:
            raise TypeError(f"option {option.name} of {part.__name__} needs a default: a text, a number or a bool")
    if part.name in _PARTS or part.name in activations().keys() - {"adalin", *_BUILT_IN}:
        raise ValueError(f"a method named {part.name!r} is registered already")
    if not set(part.name).isdisjoint("+:,= "):
        raise ValueError(f"a method's name must not contain '+', ':', ',', '=' or a space: {part.name!r}")
    _PARTS[part.name] = part
    return part


def methods() -> dict[str, type[Part]]:
    """Every registered method by name."""
    return dict(_PARTS)


@dataclass(frozen=True)
class Method:
    """What is compared with what: `Method.parse("adalin-tanh+l2:strength=0.001")`.

    Its text is made of parts joined by "+", at most one of them an activation. Options follow a colon. A base's name
    stands for the baseline with it, `adalin-tanh` for AdaLin with it, any other registered activation for itself.

    Examples:
        >>> from adalin.methods import Method
        >>> Method.parse("adalin:base=tanh+l2")
        Method(activation=AdaLin(base='tanh', gate='cosine', granularity='neuron'), rules=(L2(strength=0.01),))
        >>> str(Method.parse("l2", base="gelu"))
        'gelu+l2'
    """

    activation: Activation = field(default_factory=Baseline)
    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, text: str, **defaults: Any) -> "Method":
        """The method of a text. `defaults` are options for those parts that have them and do not set them."""
        parts = [_parse_part(part, defaults) for part in text.split("+")]
        chosen = [part for part in parts if isinstance(part, Activation)]
        rules = tuple(part for part in parts if isinstance(part, Rule))
        if len(chosen) > 1:
            raise ValueError(f"method {text!r} has more than one activation; join one with rules such as l2 or scratch")
        if len({type(rule) for rule in rules}) < len(rules):
            raise ValueError(f"method {text!r} has a rule twice")
        activation = chosen[0] if chosen else Baseline(**{key: defaults[key] for key in ("base",) if defaults.get(key)})
        _check_activation(activation)
        return cls(activation, rules)

    def __str__(self) -> str:
        rules = "+".join(_part_text(rule) for rule in self.rules)
        plain = self.activation == Baseline() and self.rules
        return rules if plain else "+".join(filter(None, (_part_text(self.activation), rules)))


def _parse_part(text: str, defaults: dict[str, Any]) -> Part:
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for option in filter(None, rest.split(",")):
        key, equals, value = option.partition("=")
        if not equals or key in given:
            raise ValueError(f"options of a method are written name:key=value,key=value, each once; got {text!r}")
        given[key] = value
    part = _PARTS.get(name)
    if part is not None:
        return _with_options(part, given, defaults, name)
    if name in bases():
        return _with_options(Baseline, given, {}, name, base=name)
    if name.startswith("adalin-") and name.removeprefix("adalin-") in bases():
        return _with_options(AdaLin, given, defaults, name, base=name.removeprefix("adalin-"))
    if name in activations():
        return _with_options(Registered, given, {}, name, activation=name)
    known = [*_PARTS, *activations()]
    raise ValueError(f"unknown method {name!r}{did_you_mean(name, known)}; known: {', '.join(dict.fromkeys(known))}")


def _with_options(part: type[Part], given: dict[str, str], defaults: dict[str, Any], name: str, **fixed: str) -> Part:
    known: dict[str, Any] = {option.name: option.default for option in fields(part) if option.name not in fixed}
    values = {key: value for key, value in defaults.items() if key in known and value is not None}
    for key, text in given.items():
        if key not in known:
            options = ", ".join(known) or "none"
            raise ValueError(f"method {name!r} has no option {key!r}{did_you_mean(key, known)}; it has: {options}")
        kind = type(known[key])
        try:
            values[key] = _BOOLS[text.lower()] if kind is bool else kind(text)
        except (KeyError, ValueError):
            raise ValueError(f"option {key} of method {name!r} must be {_KINDS[kind]}, not {text!r}") from None
    return part(**values, **fixed)


def _check_activation(activation: Activation) -> None:
    """Build one layer of it, so that an unknown base or gate is told now."""
    if isinstance(getattr(activation, "base", None), str) and activation.base not in bases():  # type: ignore[attr-defined]
        base = activation.base  # type: ignore[attr-defined]
        raise ValueError(f"unknown base {base!r}{did_you_mean(base, bases())}; known: {', '.join(bases())}")
    with torch.random.fork_rng(devices=[]):  # the caller's random state stays as it is
        activation.layers()(2)


def _part_text(part: Part) -> str:
    name, skip = part.name if not isinstance(part, Registered) else part.activation, {"activation"}
    if isinstance(part, AdaLin) and part.base != "relu":
        name, skip = f"adalin-{part.base}", {"base"}
    # The base leaky_relu has another slope than the method of that name.
    if isinstance(part, Baseline) and part.base != "relu" and part.base not in _PARTS:
        name, skip = part.base, {"base"}
    values = ((option, getattr(part, option.name)) for option in fields(part) if option.name not in skip)
    options = ",".join(f"{option.name}={value}" for option, value in values if value != option.default)
    options = options.replace("e+", "e")  # 1e+20 as 1e20: a plus joins parts
    return f"{name}:{options}" if options else name


_KINDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
"""What the options of a method can be."""

_BOOLS = {"true": True, "false": False}

_BUILT_IN = {"linear", "prelu", "leaky_relu", "interpolation", "crelu", "fourier"}
"""Methods that are named as the activation they use."""

for _part in (
    *(Baseline, AdaLin, CReLU, Fourier, Linear, PReLU, LeakyReLU, Interpolation, NoGate),
    *(L2, ShrinkPerturb, Scratch),
):
    register_method(_part)
