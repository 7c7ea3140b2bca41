"""The body of one module's method as torch.fx graphs, with every child module left as a call.

The method runs with stand-ins for tensors. The graphs are for looking at only: nobody runs them. So what a stand-in
cannot tell is guessed: a condition on values is false first, and true where that ends in an error.
"""

import inspect
import itertools
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from adalin.structure._source import OwnFunction, Source, Unreadable

MOST_FORMS = 64
"""Combinations of arguments beyond which only the defaults are traced."""
MOST_ATTEMPTS = 24
"""Runs of one form of a forward with other answers to its conditions."""
MOST_CONDITIONS = 40


class UntraceableError(Exception):
    """Says why a forward cannot be traced."""


@dataclass(frozen=True, eq=False)
class Variant:
    """The graph of a method in one mode and for one form of its arguments."""

    method: str
    """Name of the method."""
    training: bool
    """Mode of the module: train or eval."""
    fixed: Mapping[str, Any]
    """Arguments with the constant they were traced with; all others were stand-ins."""
    graph: fx.Graph
    """Graph of the module's own code, with its children as calls; a node's `meta["path"]` says which call it is."""


class Tracing:
    """Graphs of one module's methods, as many as are asked for."""

    def __init__(self, module: nn.Module, source: Source | None) -> None:
        self.module = module
        self.source = source
        self.given: list[bool] = []
        """Answers to the conditions of the last graph."""
        self._answers: dict[str, list[tuple[bool, ...]]] = {}
        self._defaults: dict[str, dict[str, Any]] = {}
        self.paths: dict[nn.Module, str] = {}
        for path, child in module.named_modules():
            self.paths.setdefault(child, path)

    def first(self, method: str = "forward") -> list[Variant]:
        """The graphs for the default arguments, in train and in eval mode."""
        if method in vars(self.module):
            raise UntraceableError(f"its {method} was replaced on the instance")
        try:
            return self._in_both_modes(method, _forms(self.module, method, constants=False)[0])
        except UntraceableError:  # perhaps an optional number or string takes part in a decision
            return self._in_both_modes(method, _forms(self.module, method, constants=True)[0])

    def others(self, method: str = "forward") -> Iterator[Variant]:
        """The graphs for other answers to conditions, and for other forms of the optional arguments."""
        for answers in list(self._answers.get(method, ()))[:MOST_ATTEMPTS]:
            try:
                yield self._once(method, self.module.training, self._defaults[method], answers)
            except UntraceableError:
                continue
        for form in _forms(self.module, method, constants=False)[1:]:
            try:
                yield self._once(method, self.module.training, form)
            except UntraceableError:
                continue

    def _in_both_modes(self, method: str, fixed: dict[str, Any]) -> list[Variant]:
        mode = self.module.training
        variants = [self._once(method, mode, fixed)]
        self._defaults[method] = fixed
        self._answers[method] = [(*self.given[:i], not self.given[i]) for i in range(len(self.given))]
        try:
            other = self._once(method, not mode, fixed)
        except UntraceableError:
            return variants
        return variants if str(other.graph) == str(variants[0].graph) else [*variants, other]

    def _once(self, method: str, training: bool, fixed: dict[str, Any], given: tuple[bool, ...] = ()) -> Variant:
        answers = list(given)
        for _ in range(MOST_ATTEMPTS):
            tracer = _Tracer(self, fixed, answers)
            try:
                with _unchanged(self.module), _intercepted(self, tracer), _deceived(self.source), _with_gradients():
                    self.module.__dict__["training"] = training  # not train(), which a class may override
                    graph = tracer.run(method)
                    self.given = tracer.given
                    return Variant(method, training, fixed, graph)
            except Exception as error:
                reason = str(error).strip().split("\n")[0] or type(error).__name__
                failure, cause = UntraceableError(reason.removesuffix(".")), error
            answers = tracer.given
            while answers and answers[-1]:
                answers.pop()
            if not answers:
                break
            answers[-1] = True
        raise failure from cause


def _forms(module: nn.Module, method: str, *, constants: bool) -> list[dict[str, Any]]:
    """For each combination of arguments, those that are constants; the defaults come first."""
    choices: list[list[dict[str, Any]]] = []
    for position, parameter in enumerate(parameters_of(module, method)):
        name, default = parameter.name, parameter.default
        if default is parameter.empty:
            choices.append([{}, {name: None}] if position else [{}])  # the first is the input
        elif default is None:
            choices.append([{name: None}, {}])
        elif isinstance(default, bool):
            choices.append([{name: default}, {name: not default}])
        elif constants:
            choices.append([{name: default}])
    forms = [dict(itertools.chain(*(choice.items() for choice in form))) for form in itertools.product(*choices[:12])]
    return forms if len(forms) <= MOST_FORMS else forms[:1]


def parameters_of(module: nn.Module, method: str = "forward") -> list[inspect.Parameter]:
    """The parameters of a module's method, without self and without those that collect the rest."""
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = list(inspect.signature(getattr(type(module), method)).parameters.values())[1:]
    return [parameter for parameter in parameters if parameter.kind not in rest]


@contextmanager
def _intercepted(tracing: Tracing, tracer: "_Tracer") -> Iterator[None]:
    """The calls of children become nodes; nothing of torch's is patched for it, which would slow all modules down."""
    children = list(tracing.paths)[1:]
    for child in children:
        child.__dict__["_compiled_call_impl"] = _node_of(tracer, tracing.paths[child])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for child in children:
            child.__dict__.pop("_compiled_call_impl", None)


def _node_of(tracer: "_Tracer", path: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: tracer.create_proxy("call_module", path, args, kwargs)


@contextmanager
def _with_gradients() -> Iterator[None]:
    with torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def _unchanged(module: nn.Module) -> Iterator[None]:
    """Undoes what a forward does besides computing its output."""
    before = [(child, dict(vars(child)), _contents(child)) for child in module.modules()]
    torchs, pythons, numpys = torch.get_rng_state(), random.getstate(), _numpys_state()
    try:
        yield
    finally:
        for child, attributes, contents in before:
            _restore(child, attributes, contents)
        torch.set_rng_state(torchs)
        random.setstate(pythons)
        if numpys:
            sys.modules["numpy"].random.set_state(numpys)


def _numpys_state() -> dict[str, Any]:
    """State of the global generator of numpy, if that is loaded."""
    numpy = sys.modules.get("numpy")
    return {} if numpy is None else numpy.random.get_state(legacy=False)


def _contents(module: nn.Module) -> dict[str, Any]:
    """Copies of the containers among a module's attributes."""
    return {name: copy(value) for name, value in vars(module).items() if type(value) in (list, dict, set)}


def _restore(module: nn.Module, attributes: dict[str, Any], contents: dict[str, Any]) -> None:
    """Give a module its attributes and their contents again."""
    after = vars(module)
    if len(after) != len(attributes) or any(after.get(n, _restore) is not value for n, value in attributes.items()):
        after.clear()
        after.update(attributes)
    for name, content in contents.items():
        if not _same(attributes[name], content):
            attributes[name].clear()
            (attributes[name].extend if isinstance(content, list) else attributes[name].update)(content)


def _same(container: Any, other: Any) -> bool:
    """Whether two containers hold the same objects."""
    if len(container) != len(other):
        return False
    if isinstance(container, set):  # a copy may have another order
        return bool(container == other)
    if isinstance(container, dict):
        return all(a is b and container[a] is other[b] for a, b in zip(container, other, strict=True))
    return all(a is b for a, b in zip(container, other, strict=True))


def _say_who_calls(node: fx.Node, frame: types.FrameType | None, tracing: Tracing) -> None:
    """Note the way through the module's code to a call, and whether it is that code that makes the call."""
    source = tracing.source
    if source is None:
        return
    node.meta["path"] = source.path_of(frame)
    while frame is not None and frame.f_code not in source.codes:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code is _run:
            break
        if package not in ("torch", "adalin"):
            node.meta["indirect"] = True
        if frame.f_code.co_varnames[:1] == ("self",):
            caller = frame.f_locals.get("self")
            inside = tracing.paths.get(caller) if isinstance(caller, nn.Module) else None
            if inside and not (node.op == "call_module" and node.target == inside):
                node.meta["foreign"] = True
        frame = frame.f_back


def _isinstance(value: Any, kinds: Any) -> bool:
    """isinstance to which a stand-in is a tensor; torch's own code must not take it for one."""
    return isinstance(value, kinds) or (type(value) is fx.Proxy and isinstance(_TENSOR, kinds))


_TENSOR = torch.empty(0)


@contextmanager
def _deceived(source: Source | None) -> Iterator[None]:
    """In the module's own code, stand-ins pass for tensors."""
    functions: list[OwnFunction | Unreadable] = []
    if source is not None:
        functions += [*source.functions, *source.unreadable]
    spaces = [function.function.__globals__ for function in functions]
    spaces = [space for space in {id(space): space for space in spaces}.values() if "isinstance" not in space]
    for space in spaces:
        space["isinstance"] = _isinstance
    try:
        yield
    finally:
        for space in spaces:
            del space["isinstance"]


class _Tracer(fx.Tracer):
    def __init__(self, tracing: Tracing, fixed: Mapping[str, Any], answers: list[bool]) -> None:
        super().__init__()
        self.tracing = tracing
        self.fixed = fixed
        self.answers = list(answers)
        self.given: list[bool] = []
        self.root = tracing.module
        self.graph = fx.Graph()
        self.tensor_attrs = {}
        self.parameters = {id(p): (name, p.dim() > 1) for name, p in self.root.named_parameters()}
        self.parameters |= {id(b): (name, False) for name, b in self.root.named_buffers()}
        self.kept: list[Tensor] = []  # or another tensor could get the number of one that is gone

    def run(self, method: str) -> fx.Graph:
        positional: list[Any] = [self.root]
        keywords: dict[str, Any] = {}
        for parameter in parameters_of(self.root, method):
            default = () if parameter.default is parameter.empty else (parameter.default,)
            stand_in = self.create_proxy("placeholder", parameter.name, default, {})
            stand_in.node.meta["method"] = method
            value = self.fixed.get(parameter.name, stand_in)
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            else:
                positional.append(value)
        kinds = {
            parameter.kind for parameter in inspect.signature(getattr(type(self.root), method)).parameters.values()
        }
        if len(positional) == 1 and inspect.Parameter.VAR_POSITIONAL in kinds:  # forward(self, *inputs)
            stand_in = self.create_proxy("placeholder", "inputs", (), {})
            stand_in.node.meta["method"] = method
            positional.append(stand_in)
        output = getattr(type(self.root), method)(*positional, **keywords)
        self.create_node("output", "output", (self.create_arg(output),), {})
        return self.graph

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        if node.op.startswith("call_"):
            _say_who_calls(node, sys._getframe(1), self.tracing)
        return node

    def to_bool(self, obj: fx.Proxy) -> bool:
        if len(self.given) >= MOST_CONDITIONS:
            raise UntraceableError("it decides by the values of tensors, without an end")
        self.given.append(self.answers.pop(0) if self.answers else False)
        return self.given[-1]

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, fx.Proxy):
            return a.node
        if isinstance(a, Tensor):
            name, is_weight = self.parameters.get(id(a), ("", a.requires_grad and a.dim() > 1))
            self.kept.append(a)
            node = self.create_node("get_attr", name or "a_constant", (), {})
            node.meta["weight"] = is_weight
            return node
        if isinstance(a, nn.Module):
            return type(a).__name__
        if isinstance(a, list | tuple):
            return tuple(self.create_arg(one) for one in a)
        if isinstance(a, dict):
            return {str(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(one) for one in (a.start, a.stop, a.step)))
        if a is None or a is ... or isinstance(a, int | float | str | complex | torch.dtype | torch.device):
            return a
        try:  # any other object counts as the tensors that it holds
            return tuple(
                self.create_arg(value)
                for value in vars(a).values()
                if isinstance(value, Tensor | fx.Proxy | list | tuple)
            )
        except TypeError:
            return None


_run = _Tracer.run.__code__
