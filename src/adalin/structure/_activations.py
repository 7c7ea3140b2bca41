"""What counts as an activation: torch's modules, functions and tensor methods."""

import dis
import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from adalin.nn import BASES, FUNCTIONS, MODULES, Base, make_base, module_base
from adalin.structure._trace import UntraceableError, names_in, trace

LEFT_ALONE = {"sigmoid": "a gate", "sin": "often a position code"}
"""What is converted only when it is named."""


@dataclass(frozen=True)
class Nonlinearity:
    """An activation that AdaLin can take as its base."""

    name: str
    """Name of the base."""
    arguments: tuple[Any, ...]
    """Arguments of the base, such as a slope."""
    inplace: bool
    """Whether it overwrites its input."""

    @property
    def base(self) -> Base:
        """The base for `AdaLin`."""
        return make_base(self.name, *self.arguments)


def activation_of(module: nn.Module) -> Nonlinearity | None:
    """The activation that a module is, if it is one."""
    if type(module) in MODULES and type(module) is not nn.Identity:
        base = module_base(module)
        return Nonlinearity(base.name, base.arguments or (), bool(getattr(module, "inplace", False)))
    if type(module).__module__.startswith(("torch.", "adalin.")) or module._modules or module._parameters:
        return None
    return _of_wrapper(module)


def _of_wrapper(module: nn.Module) -> Nonlinearity | None:
    """The activation of a class such as `class Act(nn.Module): def forward(self, x): return F.relu(x)`."""
    try:
        graphs = [list(variant.graph.nodes) for variant in trace(module)]
    except UntraceableError:
        return None
    found = {_only_activation(nodes) for nodes in graphs}
    return found.pop() if len(found) == 1 else None


def _only_activation(nodes: list[fx.Node]) -> Nonlinearity | None:
    is_one_call = [node.op for node in nodes[::2]] == ["placeholder", "output"]
    return activation_of_node(nodes[1]) if is_one_call else None


def activation_of_node(node: fx.Node) -> Nonlinearity | None:
    """The activation that a function or method call is, if it is one; its input is the first argument."""
    if node.op not in ("call_function", "call_method") or len(node.all_input_nodes) != 1:
        return None  # a slope that is computed makes no fixed base
    function = getattr(torch.Tensor, str(node.target), None) if node.op == "call_method" else node.target
    name = FUNCTIONS.get(function)  # type: ignore[arg-type]
    if name is None:
        return None
    known = list(inspect.signature(BASES.get(name)).parameters)
    given = dict(zip([*known, "inplace"], node.args[1:], strict=False)) | dict(node.kwargs)
    given.pop("input", None)
    inplace = bool(given.pop("inplace", False)) or getattr(function, "__name__", "").endswith("_")
    if None in given.values():
        return None  # traced for an argument that was left out
    return Nonlinearity(name, make_base(name, **given).arguments or (), inplace)


def mentions(module: nn.Module, attribute: str) -> int:
    """How often the code of a module's forward names one of its attributes."""
    instructions = dis.get_instructions(type(module).forward)
    return sum(i.argval == attribute and i.opname in ("LOAD_ATTR", "LOAD_METHOD") for i in instructions)


def function_names(module: nn.Module) -> list[str]:
    """Activation functions that a forward which cannot be traced seems to call, by the names in its code."""
    names = {name for name in names_in(module) if not hasattr(module, name)}
    kept = {value.__name__ for value in vars(module).values() if any(value is f for f in FUNCTIONS)}
    convertible = {function.__name__ for function, name in FUNCTIONS.items() if name not in LEFT_ALONE}
    return sorted(convertible & (names | kept))
