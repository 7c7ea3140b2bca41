"""The body of one module's forward as torch.fx graphs, with every child module left as a call.

torch.fx runs the forward with stand-ins for tensors, so whatever Python decides on the way is fixed in the graph. What
may be decided differently later is therefore traced in every form: train and eval mode, an argument given or None, a
flag on or off. A forward that decides by anything else is `UntraceableError`.
"""

import inspect
import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import fx, nn

MOST_FORMS = 64
"""Combinations of arguments beyond which only the defaults are traced."""

MISLEADING = {
    *("isinstance", "hasattr", "is_tensor", "checkpoint"),
    *("is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "enable_grad", "set_grad_enabled"),
}
"""What a stand-in, or the time of tracing, answers differently, and what leaves no mark in a graph."""


class UntraceableError(Exception):
    """Says why a forward cannot be traced."""


@dataclass(frozen=True, eq=False)
class Variant:
    """The graph of a forward in one mode and for one form of its arguments."""

    training: bool
    fixed: Mapping[str, Any]
    """Arguments with the constant they were traced with; all others were stand-ins."""
    graph: fx.Graph


def trace(module: nn.Module) -> list[Variant]:
    """The forward in train and eval mode, for the default arguments first, then for their other forms."""
    if "forward" in vars(module):
        raise UntraceableError("its forward was replaced on the instance")
    if misleading := sorted({name for code in codes(module) for name in code.co_names} & MISLEADING):
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
    """For each combination of arguments, those that are constants; the defaults come first."""
    choices: list[list[dict[str, Any]]] = []
    for position, parameter in enumerate(parameters_of(module)):
        name, default = parameter.name, parameter.default
        if default is parameter.empty:
            choices.append([{}, {name: None}] if position else [{}])  # the first is the input
        elif default is None:
            choices.append([{name: None}, {}])
        elif isinstance(default, bool):
            choices.append([{name: default}, {name: not default}])
        elif constants:
            choices.append([{name: default}])
    forms = [dict(itertools.chain(*(choice.items() for choice in form))) for form in itertools.product(*choices)]
    return forms if len(forms) <= MOST_FORMS else forms[:1]


def parameters_of(module: nn.Module) -> list[inspect.Parameter]:
    """The parameters of a module's forward, without self and without those that collect the rest."""
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    return [parameter for parameter in parameters if parameter.kind not in rest]


def codes(module: nn.Module) -> list[CodeType]:
    """The code of a module's forward, of what is defined inside it, and of the methods it names."""
    classes = [cls for cls in type(module).__mro__ if cls not in nn.Module.__mro__]
    found: list[CodeType] = []
    pending: list[Any] = [inspect.unwrap(type(module).forward)]
    while pending:
        item = getattr(pending.pop(), "__code__", None)
        inner = [item] if isinstance(item, CodeType) else []
        while inner:
            code = inner.pop()
            if code not in found:
                found.append(code)
                inner += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
                members = (vars(cls).get(name) for name in code.co_names for cls in classes)
                pending += [inspect.unwrap(member) for member in members if callable(member)]
    return found


def _in_both_modes(module: nn.Module, fixed: dict[str, Any]) -> list[Variant]:
    return [_trace_once(module, training, fixed) for training in (True, False)]


def _trace_once(module: nn.Module, training: bool, fixed: dict[str, Any]) -> Variant:
    mode = module.training
    with _unchanged(module), torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.__dict__["training"] = training  # not train(), which a class may override
        try:
            graph = _Tracer(fixed).trace(module)
        except Exception as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise UntraceableError(reason.removesuffix(".")) from error
        finally:
            module.__dict__["training"] = mode
    return Variant(training, fixed, graph)


@contextmanager
def _unchanged(module: nn.Module) -> Iterator[None]:
    """Undoes what a forward does besides computing its output, and refuses it: a graph would not do it again."""
    before = [(path, child, dict(vars(child)), _contents(child)) for path, child in module.named_modules()]
    torchs, pythons = torch.get_rng_state(), random.getstate()
    try:
        yield
    finally:
        changed = [
            f"{path}.{name}".lstrip(".")
            for path, child, attributes, contents in before
            for name in _restore(child, attributes, contents)
        ]
        drew = not torch.equal(torch.get_rng_state(), torchs) or random.getstate() != pythons
        torch.set_rng_state(torchs)
        random.setstate(pythons)
    if drew:
        raise UntraceableError("it draws random numbers")
    if any(name.startswith("_tensor_constant") for name in changed):
        raise UntraceableError("it makes a tensor that does not depend on its input")
    if changed:
        raise UntraceableError(f"it changes its attribute {changed[0]}")


def _contents(module: nn.Module) -> dict[str, Any]:
    """Copies of the containers among a module's attributes."""
    return {name: copy(value) for name, value in vars(module).items() if isinstance(value, list | dict | set)}


def _restore(module: nn.Module, attributes: dict[str, Any], contents: dict[str, Any]) -> list[str]:
    """Give a module its attributes and their contents again; the names of those that had changed."""
    after = dict(vars(module))
    changed = [n for n in {**attributes, **after} if after.get(n, _restore) is not attributes.get(n, _restore)]
    if changed:
        vars(module).clear()
        vars(module).update(attributes)
    for name, content in contents.items():
        if not _same(attributes[name], content):
            changed.append(name)
            attributes[name].clear()
            (attributes[name].extend if isinstance(content, list) else attributes[name].update)(content)
    return changed


def _same(container: Any, other: Any) -> bool:
    """Whether two containers hold the same objects."""
    if isinstance(container, set):  # a copy may have another order
        return bool(container == other)
    ours, theirs = (list(c.items()) if isinstance(c, dict) else [(item,) for item in c] for c in (container, other))
    return [tuple(map(id, item)) for item in ours] == [tuple(map(id, item)) for item in theirs]


def _modes() -> tuple[int, ...]:
    torch.autocast_increment_nesting()
    nesting = torch.autocast_decrement_nesting()  # deeper inside autocast of any device, on or off
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), nesting


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
