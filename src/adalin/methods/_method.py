"""A method: one activation for the hidden layers and any number of rules that act on the weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar

import torch

from adalin._registry import Registry
from adalin._text import did_you_mean
from adalin.methods._activations import (
    ACTIVATION_METHODS,
    Activation,
    ActivationMethod,
    activation_method,
    named_activation,
    short_name,
)
from adalin.methods._l2 import L2
from adalin.methods._rule import Rule
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb
from adalin.nn import ACTIVATIONS, BASES, Option

_Class = TypeVar("_Class", bound=type[Rule])

METHODS: Registry[type[Rule] | ActivationMethod] = Registry("method", ACTIVATION_METHODS, beside=ACTIVATIONS)


def register_method(rule: _Class) -> _Class:
    """Make a rule known by its `name`; a frozen dataclass, whose fields are its options.

    Also a decorator. An activation is a method as soon as `adalin.register_activation` knows it.
    """
    if not (isinstance(rule, type) and issubclass(rule, Rule)):
        raise TypeError(f"a method is a subclass of Rule (or an activation: register_activation), not {rule!r}")
    if "__dataclass_fields__" not in vars(rule):
        raise TypeError(f"{rule.__name__} must be a dataclass: write @dataclass(frozen=True) above it")
    for option in fields(rule):
        if type(option.default) not in _KINDS:
            raise TypeError(f"option {option.name} of {rule.__name__} needs a default: a text, a number or a bool")
    METHODS.register(getattr(rule, "name", ""), rule)
    return rule


def methods() -> Mapping[str, type[Rule] | ActivationMethod]:
    """The methods by name, each with its `summary` and `paper`: the usual activations, and every registered rule.

    Every other registered activation is a method too.
    """
    return METHODS.listing()


@dataclass(frozen=True)
class Method:
    """What is compared with what: `Method.parse("adalin-tanh+l2:strength=0.001")`.

    Its text is made of parts joined by "+", at most one of them an activation. Options follow a colon. A base's name
    stands for the baseline with it, `adalin-tanh` for AdaLin with it, any other registered activation for itself.

    Examples:
        >>> from adalin.methods import Method
        >>> Method.parse("interpolation:base=tanh+l2")
        Method(activation=Activation('interpolation', base='tanh'), rules=(L2(strength=0.01),))
        >>> str(Method.parse("l2", base="gelu"))
        'gelu+l2'
    """

    activation: Activation = field(default_factory=Activation)
    """Activation of the hidden layers."""
    rules: tuple[Rule, ...] = ()
    """Rules that act on the weights, in this order."""

    @classmethod
    def parse(cls, text: str, **defaults: Option | None) -> "Method":
        """The method of a text. `defaults` are options for those parts that have them and do not set them.

        A text is parsed once, until another method or activation is registered.
        """
        if not isinstance(text, str):
            raise TypeError(f"a method is a text such as 'adalin+l2', not {text!r}")
        return _parse(text, tuple(defaults.items()), METHODS.version, ACTIVATIONS.version)

    def __str__(self) -> str:
        rules = [_text(rule.name, _changed(rule)) for rule in self.rules]
        if rules and self.activation == Activation():
            return "+".join(rules)
        name, named = short_name(self.activation)
        known = activation_method(self.activation.name).options
        changed = {key: value for key, value in self.activation.values if key not in named and value != known[key]}
        return "+".join([_text(name, changed), *rules])


@lru_cache(maxsize=1024)
def _parse(text: str, defaults: tuple[tuple[str, Option | None], ...], *versions: int) -> Method:
    parts = [_parse_part(part, dict(defaults)) for part in text.split("+")]
    activations = [part for part in parts if isinstance(part, Activation)]
    rules = tuple(part for part in parts if isinstance(part, Rule))
    if len(activations) > 1:
        raise ValueError(f"method {text!r} has more than one activation; join one with rules such as l2 or scratch")
    if len({type(rule) for rule in rules}) < len(rules):
        raise ValueError(f"method {text!r} has a rule twice")
    activation = activations[0] if activations else _parse_part("baseline", dict(defaults))
    assert isinstance(activation, Activation)
    _check(activation)
    return Method(activation, rules)


def _parse_part(text: str, defaults: Mapping[str, Option | None]) -> Activation | Rule:
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for option in filter(None, rest.split(",")):
        key, equals, value = option.partition("=")
        if not equals or key in given:
            raise ValueError(f"options of a method are written name:key=value,key=value, each once; got {text!r}")
        given[key] = value
    method, named = named_activation(name)
    if method not in METHODS and method not in ACTIVATIONS:
        raise METHODS.unknown(name, list(dict.fromkeys([*METHODS, *ACTIVATIONS])))
    part = METHODS.get(method) if method in METHODS else activation_method(method)
    if isinstance(part, ActivationMethod):
        known = {key: default for key, default in part.options.items() if key not in named}
        return Activation(method, **named, **_values(name, known, given, defaults))
    return part(**_values(name, _defaults(part), given, defaults))


def _values(
    name: str, known: Mapping[str, Option], given: Mapping[str, str], defaults: Mapping[str, Option | None]
) -> dict[str, Any]:
    values: dict[str, Any] = {key: value for key, value in defaults.items() if key in known and value is not None}
    for key, text in given.items():
        if key not in known:
            options = ", ".join(known) or "none"
            raise ValueError(f"method {name!r} has no option {key!r}{did_you_mean(key, known)}; it has: {options}")
        kind = type(known[key])
        try:
            values[key] = _BOOLS[text.lower()] if kind is bool else kind(text)
        except (KeyError, ValueError):
            raise ValueError(f"option {key} of method {name!r} must be {_KINDS[kind]}, not {text!r}") from None
    return values


def _check(activation: Activation) -> None:
    """Build one layer of it, so that an unknown base or gate is reported now."""
    if activation.name == "baseline":
        BASES.get(str(activation.options["base"]))
    with torch.random.fork_rng(devices=[]):  # the caller's random state stays as it is
        activation.layers()(2)


def _changed(rule: Rule) -> dict[str, Option]:
    """The options that are not at their defaults."""
    values = {key: getattr(rule, key) for key in _defaults(type(rule))}
    return {key: values[key] for key, default in _defaults(type(rule)).items() if values[key] != default}


def _defaults(rule: type[Rule]) -> dict[str, Any]:
    return {option.name: option.default for option in fields(rule)}


def _text(name: str, options: Mapping[str, Option]) -> str:
    written = ",".join(f"{key}={value}" for key, value in options.items())
    written = written.replace("e+", "e")  # 1e+20 as 1e20: a plus joins parts
    return f"{name}:{written}" if written else name


_KINDS: dict[type, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
"""What the options of a method can be."""

_BOOLS = {"true": True, "false": False}

for _rule in (L2, ShrinkPerturb, Scratch):
    register_method(_rule)
