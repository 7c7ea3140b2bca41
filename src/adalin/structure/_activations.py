"""What counts as an activation: torch's modules, functions and tensor methods, and formulas of one's own."""

import inspect
import math
import types
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from adalin.nn import BASES, FUNCTIONS, MODULES, Base, as_base, make_base, module_base
from adalin.structure._trace import Tracing, UntraceableError

LEFT_ALONE = {
    "sigmoid": "a gate",
    "sin": "often a position code",
    "softplus": "a link that keeps a value positive",
}
"""What is converted only when it is named."""

BOUNDED = {"tanh", "sigmoid", "hardtanh", "softsign", "softplus"}
"""What an output is limited with on purpose."""

NO_BASE: dict[type[nn.Module], str] = {
    nn.PReLU: "PReLU, which has slopes of its own to learn and is AdaLin on ReLU",
    nn.Hardsigmoid: "Hardsigmoid, a gate",
    nn.GLU: "GLU, which halves the width",
    nn.RReLU: "RReLU, whose slopes are random",
    nn.LogSigmoid: "LogSigmoid, which is no base of AdaLin",
    nn.Softshrink: "Softshrink, which is no base of AdaLin",
    nn.Hardshrink: "Hardshrink, which is no base of AdaLin",
    nn.Tanhshrink: "Tanhshrink, which is no base of AdaLin",
    nn.Threshold: "Threshold, which is no base of AdaLin",
}
"""Activations of torch's that AdaLin is not built on."""
NO_BASE_FUNCTIONS: dict[Any, str] = {
    function: reason
    for cls, reason in NO_BASE.items()
    for space in (F, torch, Tensor)
    for name in (cls.__name__.lower(), {"LogSigmoid": "logsigmoid"}.get(cls.__name__, cls.__name__.lower()) + "_")
    if callable(function := getattr(space, name, None))
}
NAMES = {f.__name__ for f in (*FUNCTIONS, *NO_BASE_FUNCTIONS)} | {c.__name__ for c in (*MODULES, *NO_BASE)} - {
    "Identity"
}
"""How code names activations."""


@dataclass(frozen=True)
class Nonlinearity:
    """An activation that AdaLin can take as its base."""

    name: str
    """Name of the base."""
    arguments: tuple[Any, ...] = ()
    """Arguments of the base, such as a slope."""
    inplace: bool = False
    """Whether it overwrites its input."""
    formula: Base | None = None
    """The base itself where it is a formula of one's own."""

    @property
    def base(self) -> Base:
        """The base for `AdaLin`."""
        return self.formula or make_base(self.name, *self.arguments)


_formulas: dict[Any, Nonlinearity | None] = {}
unfit: dict[type[nn.Module], str] = {}
"""Classes whose formula is an activation, and why AdaLin cannot be built on it."""


def activation_of(module: nn.Module) -> Nonlinearity | None:
    """The activation that a module is, if it is one."""
    if type(module) in MODULES and type(module) is not nn.Identity:
        base = module_base(module)
        return Nonlinearity(base.name, base.arguments or (), bool(getattr(module, "inplace", False)))
    if type(module).__module__.startswith(("torch.", "adalin.")) or module._modules or module._parameters:
        return None
    if module._buffers or isinstance(module, torch.jit.ScriptModule) or type(module).forward is nn.Module.forward:
        return None
    plain = {k: v for k, v in vars(module).items() if k not in _OF_EVERY_MODULE}
    if not all(callable(v) or isinstance(v, int | float | str | type(None)) for v in plain.values()):
        return _of_own(module)
    key = (type(module), *sorted(plain.items(), key=lambda item: item[0]))
    if key not in _formulas:
        _formulas[key] = _of_own(module)
    return _formulas[key]


_OF_EVERY_MODULE = set(vars(nn.Module()))


def function_activation(function: Callable[..., Any]) -> Nonlinearity | None:
    """The activation that a function of somebody's own is, if it computes one elementwise and nothing else."""
    if not isinstance(function, types.FunctionType | partial) or function in _formulas:
        return _formulas.get(function) if is_hashable(function) else None
    if isinstance(function, partial) and (name := _torchs(function.func)) is not None:
        found = (
            called_with(name, function.func, [None, *function.args], function.keywords) if not function.args else None
        )
    elif isinstance(function, partial):
        found = None
    else:
        try:
            required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
            single = len(required) == 1 and required[0].kind in (
                required[0].POSITIONAL_ONLY,
                required[0].POSITIONAL_OR_KEYWORD,
            )
        except (ValueError, TypeError):
            single = False
        found = _of_own(_Calling(function)) if single and _is_arithmetic(function) else None
        if found is not None and found.formula is not None:
            found = Nonlinearity(function.__name__, (), found.inplace, found.formula)
    _formulas[function] = found
    return found


def _is_arithmetic(function: types.FunctionType) -> bool:
    """Whether a function uses nothing but torch, math and numbers: no other may be run to see what it computes."""
    code = function.__code__
    if code.co_freevars or code.co_cellvars or len(code.co_code) > 600:
        return False
    for name in code.co_names:
        if name in function.__globals__:
            value = function.__globals__[name]
            torchs = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            known = isinstance(value, int | float) or str(torchs).partition(".")[0] in ("torch", "math")
        else:
            known = any(hasattr(space, name) for space in (torch, F, Tensor, math, nn)) and name not in _UNSAFE
        if not known:
            return False
    return bool(set(code.co_names) & (NAMES | {"exp", "erf"})) or not code.co_names


_UNSAFE = {"save", "load", "hub", "compile", "jit", "set_default_dtype", "set_default_device", "manual_seed", "seed"}


class _Calling(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def _of_own(module: nn.Module) -> Nonlinearity | None:
    """The activation that a class or function computes: one of torch's, or a formula such as a hand-written GELU."""
    try:
        variants = Tracing(module, None).first()
    except (UntraceableError, ValueError, TypeError):
        return None
    graphs = [list(variant.graph.nodes) for variant in variants]
    found = {_only_activation(nodes) for nodes in graphs}
    if found != {None}:
        return found.pop() if len(found) == 1 else None
    if len(graphs) != 1 or not _is_formula(graphs[0]):
        return None
    own = module.function if isinstance(module, _Calling) else deepcopy(module)
    try:
        if not _bends(own):
            return None
    except Exception:
        return None
    try:
        return Nonlinearity(type(module).__name__, (), False, _base_of(own))
    except ValueError as error:
        unfit[type(module)] = str(error)
        return None


def _only_activation(nodes: list[fx.Node]) -> Nonlinearity | None:
    is_one_call = [node.op for node in nodes[::2]] == ["placeholder", "output"]
    return activation_of_node(nodes[1]) if is_one_call else None


def _is_formula(nodes: list[fx.Node]) -> bool:
    """Whether one input and numbers are all that the output is made of."""
    inputs = [node for node in nodes if node.op == "placeholder" and node.users]
    kinds = {node.op for node in nodes} - {"placeholder", "output"}
    return len(inputs) == 1 and 0 < len(nodes) < 40 and bool(kinds) and kinds <= {"call_function", "call_method"}


def _base_of(function: Callable[[Tensor], Tensor]) -> Base:
    """A formula as a base; where its slope grows without bound, as ReLU squared's, L is the largest up to |x| = 1."""
    try:
        return as_base(function)
    except ValueError as error:
        if "|phi'| grows" not in str(error):
            raise
    base = as_base(function, lipschitz=1.0)
    x = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    return as_base(function, lipschitz=base.derivative(x, None).abs().max().item())


def _bends(function: Callable[[Tensor], Tensor]) -> bool:
    """Whether a function is an activation: flat to one side and not to the other, or flat to both as tanh is."""
    x = torch.tensor([-40.0, -39.0, -0.1, 0.1, 39.0, 40.0], dtype=torch.float64)
    with torch.no_grad():
        y = function(x.clone())
    if not isinstance(y, Tensor) or y.shape != x.shape or not bool(y.isfinite().all()) or y.abs().max() > 40**3:
        return False
    left, middle, right = (y[1] - y[0]).abs(), (y[3] - y[2]).abs() / 0.2, (y[5] - y[4]).abs()
    is_gate = y.min() >= 0 and y.max() <= 1.0001
    one_sided = left < 0.5 * right or right < 0.5 * left
    both_sided = left < 1e-3 and right < 1e-3 and middle > 0.05
    return bool((one_sided or both_sided) and not is_gate)


def is_hashable(value: object) -> bool:
    """Whether a value may be looked for in a table: a tuple of lists may not."""
    try:
        hash(value)
    except Exception:
        return False
    return True


def _torchs(function: Any) -> str | None:
    return FUNCTIONS.get(function) if is_hashable(function) else None


def called_with(name: str, function: Any, args: Any, kwargs: Any) -> Nonlinearity | None:
    """The activation that a call of torch's function is; None where its arguments make no fixed base."""
    known = list(inspect.signature(BASES.get(name)).parameters)
    given = dict(zip([*known, "inplace"], args[1:], strict=False)) | dict(kwargs)
    given.pop("input", None)
    inplace = bool(given.pop("inplace", False)) or getattr(function, "__name__", "").endswith("_")
    try:
        return Nonlinearity(name, make_base(name, **given).arguments or (), inplace)
    except (ValueError, TypeError):
        return None


def activation_of_node(node: fx.Node) -> Nonlinearity | None:
    """The activation that a function or method call is, if it is one; its input is the first argument."""
    if node.op not in ("call_function", "call_method") or len(node.all_input_nodes) != 1:
        return None  # a slope that is computed makes no fixed base
    function = getattr(torch.Tensor, str(node.target), None) if node.op == "call_method" else node.target
    name = _torchs(function)
    return None if name is None else called_with(name, function, node.args, node.kwargs)


def no_base_of_node(node: fx.Node, module: nn.Module | None) -> str | None:
    """What a call is if it is an activation that AdaLin is not built on."""
    if module is not None:
        return no_base(module)
    function = getattr(torch.Tensor, str(node.target), None) if node.op == "call_method" else node.target
    return function_without_base(function, node.args, node.kwargs) if node.op.startswith("call_") else None


def no_base(module: nn.Module) -> str | None:
    """What a module is if it is an activation that AdaLin is not built on."""
    if isinstance(module, nn.RNN) and module.nonlinearity in ("relu", "tanh"):
        return f"{module.nonlinearity} inside torch's RNN"
    if isinstance(module, nn.RNNCell):
        return f"{module.nonlinearity} inside torch's RNNCell"
    return unfit.get(type(module)) or NO_BASE.get(type(module))


def function_without_base(function: Any, args: Any, kwargs: Any) -> str | None:
    """What a function's call is if it is an activation that AdaLin is not built on."""
    if not is_hashable(function):
        return None
    if function in (
        torch.clamp,
        torch.clip,
        Tensor.clamp,
        Tensor.clip,
        Tensor.clamp_,
        torch.clamp_min,
        Tensor.clamp_min,
    ):
        low = kwargs.get("min", args[1] if len(args) > 1 else None)
        high = kwargs.get("max", args[2] if len(args) > 2 else None)
        return (
            "clamp(min=0), a ReLU by another name"
            if high is None and isinstance(low, int | float) and low == 0
            else None
        )
    return NO_BASE_FUNCTIONS.get(function)
