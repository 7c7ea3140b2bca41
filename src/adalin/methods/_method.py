"""A method: an optimiser, one activation for the hidden layers, and any number of rules that act on the weights."""

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
from adalin.methods._cbp import ContinualBackprop
from adalin.methods._fire import FIRE
from adalin.methods._hare_tortoise import HareTortoise
from adalin.methods._l2 import L2
from adalin.methods._l2_init import L2Init
from adalin.methods._norm import LayerNorm, Norm, RMSNorm
from adalin.methods._parseval import Parseval
from adalin.methods._redo import ReDo
from adalin.methods._resets import FullReset, HeadReset, OptimizerReset
from adalin.methods._rule import Rule, check_together
from adalin.methods._scratch import Scratch
from adalin.methods._shrink_perturb import ShrinkPerturb
from adalin.methods._upgd import UPGD
from adalin.methods._wasserstein import Wasserstein
from adalin.methods._weight_clip import WeightClip
from adalin.nn import ACTIVATIONS, BASES, Option
from adalin.optim import SGD, Adam, AdamW, Optimizer, RMSprop

Part = type[Rule] | type[Optimizer] | type[Norm] | ActivationMethod
"""What a name in a method's text stands for."""

_Class = TypeVar("_Class", bound=type[Rule] | type[Optimizer] | type[Norm])

METHODS: Registry[Part] = Registry("method", ACTIVATION_METHODS, beside=ACTIVATIONS)


def register_method(part: _Class) -> _Class:
    """Make a rule, an optimiser or a norm known by its `name`; a frozen dataclass, whose fields are its options.

    Also a decorator. An activation is a method as soon as `adalin.register_activation` knows it.
    """
    if not (isinstance(part, type) and issubclass(part, Rule | Optimizer | Norm)):
        raise TypeError(
            f"a method is a subclass of Rule, Optimizer or Norm (or an activation: register_activation), not {part!r}"
        )
    if "__dataclass_fields__" not in vars(part):
        raise TypeError(f"{part.__name__} must be a dataclass: write @dataclass(frozen=True) above it")
    for option in fields(part):
        is_optional = option.default is None and issubclass(part, Optimizer)  # as a learning rate is
        if type(option.default) not in _KINDS and not is_optional:
            raise TypeError(f"option {option.name} of {part.__name__} needs a default: a text, a number or a bool")
    METHODS.register(getattr(part, "name", ""), part)
    return part


def methods() -> Mapping[str, Part]:
    """The methods by name, each with its `summary` and `paper`: the usual activations, every rule and optimiser.

    Every other registered activation is a method too.
    """
    return METHODS.listing()


@dataclass(frozen=True)
class Method:
    """What is compared with what: `Method.parse("adalin-tanh+l2:strength=0.001")`.

    Its text is made of parts joined by "+", at most one of them an activation, one an optimiser and one a norm. Options
    follow a colon. A base's name stands for the baseline with it, `adalin-tanh` for AdaLin with it, any other
    registered activation for itself. Plain SGD need not be named.

    Examples:
        >>> from adalin.methods import Method
        >>> Method.parse("interpolation:base=tanh+l2")
        Method(activation=Activation('interpolation', base='tanh'), rules=(L2(strength=0.01),), optimizer=SGD())
        >>> str(Method.parse("l2", base="gelu"))
        'gelu+l2'
        >>> str(Method.parse("crelu+sgd:momentum=0.9"))
        'sgd:momentum=0.9+crelu'
    """

    activation: Activation = field(default_factory=Activation)
    """Activation of the hidden layers."""
    rules: tuple[Rule, ...] = ()
    """Rules that act on the weights, in this order."""
    optimizer: Optimizer = field(default_factory=SGD)
    """Optimiser; where it is plain SGD, a preset's takes its place."""

    @classmethod
    def parse(cls, text: str, **defaults: Option | None) -> "Method":
        """The method of a text. `defaults` are options for those parts that have them and do not set them.

        A text is parsed once, until another method or activation is registered.
        """
        if not isinstance(text, str):
            raise TypeError(f"a method is a text such as 'adalin+l2', not {text!r}")
        return _parse(text, tuple(defaults.items()), METHODS.version, ACTIVATIONS.version)

    @property
    def title(self) -> str:
        """The method as figures name it, with what is not at its default.

        >>> Method.parse("adam+adalin-tanh+l2:strength=0.001").title
        'Adam, AdaLin (Tanh) + L2 (strength 0.001)'
        """
        norm = self.activation.norm
        rules = [] if norm is None else [_titled(norm.title or norm.name, _changed(norm))]
        rules += [_titled(rule.title or rule.name, _changed(rule)) for rule in self.rules]
        is_plain = self.activation.with_norm(None) == Activation()
        activations = [] if rules and is_plain else [_activation_title(self.activation)]
        acts = " + ".join([*activations, *rules])
        if self.optimizer == SGD():
            return acts
        return f"{_titled(self.optimizer.title or self.optimizer.name, _changed(self.optimizer))}, {acts}"

    def __str__(self) -> str:
        norm = self.activation.norm
        before = [] if self.optimizer == SGD() else [_text(self.optimizer.name, _changed(self.optimizer))]
        after = [] if norm is None else [_text(norm.name, _changed(norm))]
        after += [_text(rule.name, _changed(rule)) for rule in self.rules]
        if (before or after) and self.activation.with_norm(None) == Activation():
            return "+".join([*before, *after])
        name, named = short_name(self.activation)
        known = activation_method(self.activation.name).options
        changed = {key: value for key, value in self.activation.values if key not in named and value != known[key]}
        return "+".join([*before, _text(name, changed), *after])


@lru_cache(maxsize=1024)
def _parse(text: str, defaults: tuple[tuple[str, Option | None], ...], *versions: int) -> Method:
    parts = [_parse_part(part, dict(defaults)) for part in text.split("+")]
    activations = [part for part in parts if isinstance(part, Activation)]
    rules = tuple(part for part in parts if isinstance(part, Rule))
    optimizers = [part for part in parts if isinstance(part, Optimizer)]
    norms = [part for part in parts if isinstance(part, Norm)]
    if len(norms) > 1:
        raise ValueError(f"method {text!r} has more than one norm")
    if len(optimizers) > 1:
        raise ValueError(f"method {text!r} has more than one optimiser")
    if len(activations) > 1:
        raise ValueError(f"method {text!r} has more than one activation; join one with rules such as l2 or scratch")
    if len({type(rule) for rule in rules}) < len(rules):
        raise ValueError(f"method {text!r} has a rule twice")
    try:
        check_together(rules)
    except ValueError as error:
        raise ValueError(f"method {text!r}: {error}") from None
    plain = all(own == SGD(lr=own.lr, schedule=own.schedule) for own in optimizers)
    for rule in rules:
        if rule.of_plain_sgd and not plain:
            raise ValueError(f"method {text!r}: {rule.name} is an optimiser of its own, with plain SGD only")
    activation = activations[0] if activations else _parse_part("baseline", dict(defaults))
    assert isinstance(activation, Activation)
    _check(activation)
    return Method(activation.with_norm(norms[0] if norms else None), rules, *optimizers)


def _parse_part(text: str, defaults: Mapping[str, Option | None]) -> Activation | Rule | Optimizer | Norm:
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
        options: dict[str, Any] = {**named, **_values(name, known, given, defaults)}
        return Activation(method, **options)
    return part(**_values(name, _defaults(part), given, defaults))


def _values(
    name: str, known: Mapping[str, Option | None], given: Mapping[str, str], defaults: Mapping[str, Option | None]
) -> dict[str, Any]:
    values: dict[str, Any] = {key: value for key, value in defaults.items() if key in known and value is not None}
    for key, text in given.items():
        if key not in known:
            options = ", ".join(known) or "none"
            raise ValueError(f"method {name!r} has no option {key!r}{did_you_mean(key, known)}; it has: {options}")
        default = known[key]
        kind = float if default is None else type(default)
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


def _activation_title(activation: Activation) -> str:
    known = activation_method(activation.name)
    changed = {key: value for key, value in activation.values if key != "base" and value != known.options[key]}
    base = activation.options.get("base")
    if base is None:
        return _titled(known.title, changed)
    named = ACTIVATIONS.get(str(base)).title if base in ACTIVATIONS else str(base)
    return _titled(known.title, changed, named) if known.title else _titled(named, changed)


def _titled(title: str, options: Mapping[str, Option], *first: str) -> str:
    """A title with its options in parentheses: "SGD (momentum 0.9, nesterov)"."""
    words = [key if value is True else f"{key} {value}" for key, value in options.items()]
    inside = ", ".join([*first, *(word.replace("_", " ") for word in words)])
    return f"{title} ({inside})" if inside else title


def _changed(part: Rule | Optimizer | Norm) -> dict[str, Option]:
    """The options that are not at their defaults."""
    values = {key: getattr(part, key) for key in _defaults(type(part))}
    return {key: values[key] for key, default in _defaults(type(part)).items() if values[key] != default}


def _defaults(part: type[Rule] | type[Optimizer] | type[Norm]) -> dict[str, Any]:
    return {option.name: option.default for option in fields(part)}


def _text(name: str, options: Mapping[str, Option]) -> str:
    written = ",".join(f"{key}={value}" for key, value in options.items())
    written = written.replace("e+", "e")  # 1e+20 as 1e20: a plus joins parts
    return f"{name}:{written}" if written else name


_KINDS: dict[type, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
"""What the options of a method can be."""

_BOOLS = {"true": True, "false": False}

_parts: tuple[type[Rule] | type[Optimizer] | type[Norm], ...] = (
    *(L2, L2Init, Wasserstein, Parseval, WeightClip, ShrinkPerturb, HareTortoise, UPGD),
    *(ReDo, ContinualBackprop, FIRE, OptimizerReset, HeadReset, FullReset, Scratch),
    *(LayerNorm, RMSNorm),
    *(SGD, Adam, AdamW, RMSprop),
)
for _part in _parts:
    register_method(_part)
