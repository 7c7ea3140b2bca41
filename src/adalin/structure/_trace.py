"""The body of one module's forward as torch.fx graphs, with every child module left as a call.

torch.fx runs the forward with stand-ins for tensors, so whatever Python decides on the way is fixed in the graph. What
may be decided differently later is therefore traced in every form: train and eval mode, an argument given or None, a
flag on or off. A forward that decides by anything else is `UntraceableError`.
"""

import inspect
import itertools
import random
import sys
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
    *("isinstance", "hasattr", "is_tensor", "checkpoint", "checkpoint_sequential"),
    *("is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "enable_grad", "set_grad_enabled"),
}
"""What a stand-in, or the time of tracing, answers differently, and what leaves no mark in a graph."""


class UntraceableError(Exception):
    """Says why a forward cannot be traced."""


@dataclass(frozen=True, eq=False)
class Variant:
    """The graph of a forward in one mode and for one form of its arguments."""

    training: bool
    """Mode of the module: train or eval."""
    fixed: Mapping[str, Any]
    """Arguments with the constant they were traced with; all others were stand-ins."""
    graph: fx.Graph
    """Graph of the module's own forward, with its children as calls."""


def trace(module: nn.Module) -> list[Variant]:
    """The forward in train and eval mode, for the default arguments first, then for their other forms."""
    if "forward" in vars(module):
        raise UntraceableError("its forward was replaced on the instance")
    if misleading := sorted(names_in(module) & MISLEADING):
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


def names_in(module: nn.Module) -> set[str]:
    """What a module's forward names, under any alias, and what its helpers name: methods and functions of its file."""
    classes = [cls for cls in type(module).__mro__ if cls not in nn.Module.__mro__]
    names: set[str] = set()
    seen: set[CodeType] = set()
    pending: list[Any] = [inspect.unwrap(type(module).forward)]
    while pending:
        function = pending.pop()
        code = getattr(function, "__code__", None)
        inner = [code] if isinstance(code, CodeType) else []
        while inner:
            code = inner.pop()
            if code in seen:
                continue
            seen.add(code)
            inner += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
            members = (vars(cls).get(name) for name in code.co_names for cls in classes)
            pending += [inspect.unwrap(member) for member in members if callable(member)]
            found = [function.__globals__.get(name) for name in code.co_names]
            pending += [one for one in found if inspect.isfunction(one) and one.__module__ == function.__module__]
            names |= {*code.co_names, *(str(getattr(one, "__name__", "")) for one in found if callable(one))}
    return names


def _in_both_modes(module: nn.Module, fixed: dict[str, Any]) -> list[Variant]:
    variants = [_trace_once(module, training, fixed) for training in (True, False)]
    children = list(module.modules())[1:]
    for child in children:
        child.__dict__["training"] = not child.training
    try:
        others = [_trace_once(module, training, fixed) for training in (True, False)]
    finally:
        for child in children:
            child.__dict__["training"] = not child.training
    if [str(one.graph) for one in variants] != [str(one.graph) for one in others]:
        raise UntraceableError("it reads the mode of one of its modules")
    return variants


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
    torchs, pythons, numpys = torch.get_rng_state(), random.getstate(), _numpys_state()
    try:
        yield
    finally:
        changed = [
            f"{path}.{name}".lstrip(".")
            for path, child, attributes, contents in before
            for name in _restore(child, attributes, contents)
        ]
        drew = not torch.equal(torch.get_rng_state(), torchs) or random.getstate() != pythons
        drew = drew or str(_numpys_state()) != str(numpys)
        torch.set_rng_state(torchs)
        random.setstate(pythons)
        if numpys:
            sys.modules["numpy"].random.set_state(numpys)
    if drew:
        raise UntraceableError("it draws random numbers")
    if any(name.startswith("_tensor_constant") for name in changed):
        raise UntraceableError("it makes a tensor that does not depend on its input")
    if changed:
        raise UntraceableError(f"it changes its attribute {changed[0]}")


def _numpys_state() -> dict[str, Any]:
    """State of the global generator of numpy, if that is loaded."""
    numpy = sys.modules.get("numpy")
    return {} if numpy is None else numpy.random.get_state(legacy=False)


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
