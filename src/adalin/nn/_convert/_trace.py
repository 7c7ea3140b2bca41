"""The body of one module's forward as torch.fx graphs, with every child module left as a call.

torch.fx runs the forward with stand-ins for tensors, so whatever Python decides on the way is fixed in the graph. What
may be decided differently later is therefore traced in every form: train and eval mode, an optional argument given or
left out, a flag on or off. A forward that decides by anything else is `UntraceableError`.
"""

import inspect
import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

MOST_FORMS = 16
"""Combinations of optional arguments beyond which only the defaults are traced."""

MISLEADING = {
    *("isinstance", "hasattr", "is_tensor", "checkpoint"),
    *("is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled"),
}
"""What a stand-in, or the time of tracing, answers differently, and what leaves no mark in a graph."""


class UntraceableError(Exception):
    """Says why a forward cannot be traced."""


@dataclass(frozen=True, eq=False)
class Variant:
    """The graph of a forward in one mode and for one form of its optional arguments."""

    training: bool
    fixed: Mapping[str, Any]
    """Arguments with the constant they were traced with; all others were stand-ins."""
    graph: fx.Graph


def trace(module: nn.Module) -> list[Variant]:
    """The forward in train and eval mode, for the default arguments first, then for their other forms."""
    if "forward" in vars(module):
        raise UntraceableError("its forward was replaced on the instance")
    names = set(getattr(getattr(type(module).forward, "__code__", None), "co_names", ()))
    if misleading := sorted(names & MISLEADING):
        raise UntraceableError(f"it uses {misleading[0]}")
    forms = _forms(module, constants=False)
    try:
        variants = _in_both_modes(module, forms[0])
    except UntraceableError:  # perhaps an optional number or string takes part in a decision
        forms = _forms(module, constants=True)
        variants = _in_both_modes(module, forms[0])
    for form in forms[1:]:
        try:
            variants += _in_both_modes(module, form)
        except UntraceableError:
            continue  # a rewritten forward refuses this form when it meets it
    return variants


def _forms(module: nn.Module, *, constants: bool) -> list[dict[str, Any]]:
    """For each combination of optional arguments, those that are constants; the defaults come first."""
    choices: list[list[dict[str, Any]]] = []
    for parameter in parameters_of(module):
        name, default = parameter.name, parameter.default
        if default is None:
            choices.append([{name: None}, {}])
        elif isinstance(default, bool):
            choices.append([{name: default}, {name: not default}])
        elif constants and default is not parameter.empty:
            choices.append([{name: default}])
    forms = [dict(itertools.chain(*(choice.items() for choice in form))) for form in itertools.product(*choices)]
    return forms if len(forms) <= MOST_FORMS else forms[:1]


def parameters_of(module: nn.Module) -> list[inspect.Parameter]:
    """The parameters of a module's forward, without self and without those that collect the rest."""
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    return [parameter for parameter in parameters if parameter.kind not in rest]


def _in_both_modes(module: nn.Module, fixed: dict[str, Any]) -> list[Variant]:
    return [_trace_once(module, training, fixed) for training in (True, False)]


def _trace_once(module: nn.Module, training: bool, fixed: dict[str, Any]) -> Variant:
    with _unchanged(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.__dict__["training"] = training  # not train(), which a class may override
        try:
            graph = _Tracer(fixed).trace(module)
        except Exception as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise UntraceableError(reason.removesuffix(".")) from error
    return Variant(training, fixed, graph)


@contextmanager
def _unchanged(module: nn.Module) -> Iterator[None]:
    """Undoes what a forward does besides computing its output, and refuses it: a graph would not do it again."""
    attributes = dict(vars(module))
    contents = {name: copy(value) for name, value in attributes.items() if isinstance(value, list | dict | set)}
    torchs, pythons = torch.get_rng_state(), random.getstate()
    try:
        yield
    finally:
        after = dict(vars(module))
        vars(module).clear()
        vars(module).update(attributes)
        changed = [name for name in after if name != "training" and after[name] is not attributes.get(name, _unchanged)]
        for name, content in contents.items():
            if not _same(attributes[name], content):
                changed.append(name)
                attributes[name].clear()
                (attributes[name].extend if isinstance(content, list) else attributes[name].update)(content)
        drew = not torch.equal(torch.get_rng_state(), torchs) or random.getstate() != pythons
        torch.set_rng_state(torchs)
        random.setstate(pythons)
    if drew:
        raise UntraceableError("it draws random numbers")
    if any(name.startswith("_tensor_constant") for name in changed):
        raise UntraceableError("it makes a tensor that does not depend on its input")
    if changed:
        raise UntraceableError(f"it changes its attribute {changed[0]}")


def _same(container: Any, other: Any) -> bool:
    """Whether two containers hold the same objects."""
    ours, theirs = (list(c.items()) if isinstance(c, dict) else [(item,) for item in c] for c in (container, other))
    return [tuple(map(id, item)) for item in ours] == [tuple(map(id, item)) for item in theirs]


def _modes() -> tuple[bool, ...]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True

    def __init__(self, fixed: Mapping[str, Any]) -> None:
        super().__init__()
        self.fixed = fixed
        self.modes = _modes()

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if _modes() != self.modes:
            raise UntraceableError("it changes the gradient mode or autocast")
        return super().create_node(*args, **kwargs)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def create_args_for_root(self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None) -> Any:
        positional: list[Any] = [self.root]
        keywords: dict[str, Any] = {}
        for parameter in parameters_of(self.root):
            default = () if parameter.default is parameter.empty else (parameter.default,)
            stand_in = self.create_proxy("placeholder", parameter.name, default, {})
            value = self.fixed.get(parameter.name, stand_in)
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            else:
                positional.append(value)
        return (lambda: root_fn(*positional, **keywords)), []
