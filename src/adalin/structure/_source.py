"""The code that belongs to one module: its methods, the helpers that these call, and every call in them.

What a call stands for is looked up without running anything: in the module's own attributes, in its class, in globals
and closures. Names that are local to a function stay unknown.
"""

import ast
import builtins
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

UNKNOWN = object()
"""What stands for a value that only a run can tell."""

LIBRARIES = {"torch", "numpy", "einops", "adalin", "huggingface_hub", "safetensors", "accelerate", "tqdm", "PIL"}
FOREIGN = {*LIBRARIES, *sys.stdlib_module_names} - {"builtins"}  # where code of strings is
"""Packages whose functions are no helpers of a module."""
NO_COMPUTATION = {
    *("__init__", "__new__", "__repr__", "__getattr__", "__setattr__", "__setstate__", "__getstate__", "__reduce__"),
    *("extra_repr", "reset_parameters", "init_weights", "_init_weights", "load_state_dict", "state_dict", "train"),
}
"""Methods that are never on the way from inputs to outputs."""
LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Parsed:
    """The syntax tree of a function, and its calls in the order of the tree."""

    tree: ast.FunctionDef
    calls: tuple[ast.Call, ...]
    ends: dict[tuple[int, int], int]
    """Place of each call by the line and column where it ends; no two calls end together."""
    looping: frozenset[int]
    """Calls that stand in a loop."""


@dataclass(eq=False)
class OwnFunction:
    """A function of a module's code."""

    name: str
    """Name of the method, or of the method that a changed helper becomes."""
    place: "tuple[int, str] | Callable[..., Any]"
    """Place where it is found: number of the class among the module's bases, and name; or the helper itself."""
    holder: Callable[..., Any]
    """Function with its decorators, as the class or the global holds it."""
    function: types.FunctionType
    """OwnFunction inside the decorators."""
    parsed: Parsed
    """Source of the function, parsed."""
    is_method: bool
    """Whether its first argument is the module."""

    @property
    def self_name(self) -> str:
        """How its code names the module."""
        arguments = self.parsed.tree.args
        return [*arguments.posonlyargs, *arguments.args][0].arg if self.is_method else "_adalin_self"


@dataclass(frozen=True)
class Bound:
    """A method of the module, or of one of its bases if `super()` is asked."""

    place: tuple[int, str]
    holder: Callable[..., Any]


def made_call(node: ast.Call) -> ast.Call:
    """A call as the author wrote it, also where a conversion has put its own around it."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "_adalin_call" and len(node.args) > 2:
        return ast.copy_location(ast.Call(node.args[2], node.args[3:], node.keywords), node)
    return node


@dataclass(frozen=True)
class Unreadable:
    """A function of a module's code whose source nobody has."""

    name: str
    holder: Callable[..., Any]
    function: types.FunctionType
    is_method: bool


Call = tuple[int, int]
"""A call in a module's code: the function's place and the call's."""


class Source:
    """The functions of a module's code that may lead to one of the names, the calls in them, who calls whom."""

    def __init__(
        self,
        module: nn.Module,
        interesting: Callable[[set[str], types.FunctionType], bool],
        is_activation: Callable[[types.FunctionType], Any],
    ) -> None:
        self.module = module
        self.is_activation = is_activation
        self.classes = own_classes(type(module))
        self.interesting = interesting
        self.functions: list[OwnFunction] = []
        self.codes: dict[types.CodeType, int] = {}
        self.edges: dict[Call, int] = {}
        self.unreadable: list[Unreadable] = []
        """Functions of interest without a source."""
        self.unreadable_codes: list[types.CodeType] = []
        """Their code; a call in number k has -1 - k for its function, and the instruction for its place."""
        self._leading: dict[types.CodeType, tuple[bool, int]] = {}
        seen: set[str] = set()
        for number, cls in enumerate(type(module).__mro__):
            if cls not in self.classes:
                continue
            for name, holder in vars(cls).items():
                if name in seen or name in NO_COMPUTATION:
                    continue
                seen.add(name)
                if inspect.isfunction(holder) and (name == "forward" or self._leads(holder, 1)):
                    self._add((number, name), holder, is_method=True)
        at = 0
        while at < len(self.functions):
            self._follow(at)
            at += 1

    def calls(self) -> Iterator[tuple[Call, ast.Call]]:
        """Every call in the code, in order."""
        for number, function in enumerate(self.functions):
            for place, call in enumerate(function.parsed.calls):
                yield (number, place), call

    def at(self, call: Call) -> ast.Call:
        """The syntax of a call."""
        return made_call(self.functions[call[0]].parsed.calls[call[1]])

    def names(self) -> set[str]:
        """All names that the module's own methods use."""
        functions = [vars(cls)[name] for cls in self.classes for name in vars(cls) if name not in NO_COMPUTATION]
        inner = [inspect.unwrap(one) for one in functions if inspect.isfunction(one)]
        return {name for one in inner if isinstance(one, types.FunctionType) for name in names_in(one.__code__)}

    def unread_names(self, names: set[str]) -> list[str]:
        """Those of the names that functions without a source use, other than for the module's own."""
        used = {name for one in self.unreadable for name in names_in(one.function.__code__)}
        own = {name for kind in ("_modules", "_parameters", "_buffers") for name in vars(self.module)[kind]}
        own |= set(vars(self.module)) | {name for cls in self.classes for name in vars(cls)}
        return sorted(used & names - own)

    def is_looping(self, call: Call) -> bool:
        """Whether a call stands in a loop."""
        return call[1] in self.functions[call[0]].parsed.looping

    def called_at(self, code: types.CodeType, instruction: int) -> Call | None:
        """The call that a running frame is in."""
        number = self.codes.get(code)
        if number is not None and number < 0:
            return number, instruction
        end = _end(code, instruction) if number is not None else None
        place = self.functions[number].parsed.ends.get(end) if number is not None and end is not None else None
        return None if place is None else (number, place)  # type: ignore[return-value]

    def path_of(self, frame: types.FrameType | None) -> tuple[Call, ...]:
        """The calls, outermost first, that have led to a frame; only those that a changed code can tell apart."""
        path: list[Call] = []
        inner: int | None = None
        while frame is not None:
            number = self.codes.get(frame.f_code)
            if number is not None and (call := self.called_at(frame.f_code, frame.f_lasti)) is not None:
                if inner is None or self.edges.get(call) == inner or (number < 0 and inner < 0):
                    path.insert(0, call)
                    inner = number
                elif number != inner:
                    break  # reached in a way that nobody can see: the inner function counts as the beginning
                frame = frame.f_back
                continue
            frame = frame.f_back
        return tuple(path)

    def value(self, node: ast.expr, number: int) -> Any:
        """What an expression in a function stands for; UNKNOWN if only a run can tell."""
        function = self.functions[number]
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id, function)
        if isinstance(node, ast.Attribute):
            if _is_super(node.value) and function.is_method:
                return self._after(function, node.attr)
            base = self.value(node.value, number)
            return UNKNOWN if base is UNKNOWN else self._attribute(base, node.attr)
        if isinstance(node, ast.Subscript):
            base, index = self.value(node.value, number), self.value(node.slice, number)
            if index is UNKNOWN or not isinstance(
                base, dict | list | tuple | nn.ModuleList | nn.Sequential | nn.ModuleDict
            ):
                return UNKNOWN
            try:
                return base[index]
            except Exception:
                return UNKNOWN
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand, number)
            return -value if isinstance(value, int | float) else UNKNOWN
        if isinstance(node, ast.Call):
            return self._made(node, number)
        return UNKNOWN

    def _made(self, node: ast.Call, number: int) -> Any:
        """A module of torch's that the code makes on the way, as in `nn.ReLU()(x)`."""
        cls = self.value(node.func, number)
        arguments = [self.value(argument, number) for argument in node.args]
        keywords = {str(k.arg): self.value(k.value, number) for k in node.keywords}
        known = all(value is not UNKNOWN for value in (*arguments, *keywords.values())) and "None" not in keywords
        if not (known and isinstance(cls, type) and issubclass(cls, nn.Module) and cls.__module__.startswith("torch.")):
            return UNKNOWN
        try:
            made = cls(*arguments, **keywords)
        except Exception:
            return UNKNOWN
        return made if not list(made.parameters()) else UNKNOWN

    def _name(self, name: str, function: OwnFunction) -> Any:
        code = function.function.__code__
        if function.is_method and name == function.self_name and _binds_once(function.parsed.tree, name):
            return self.module
        if name in code.co_varnames or name in code.co_cellvars or _is_local(function.parsed.tree, name):
            return UNKNOWN
        if name in code.co_freevars:
            cell = (function.function.__closure__ or ())[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                return UNKNOWN
        return function.function.__globals__.get(name, getattr(builtins, name, UNKNOWN))

    def _attribute(self, base: Any, name: str) -> Any:
        if isinstance(base, types.ModuleType):
            return getattr(base, name, UNKNOWN)
        if isinstance(base, nn.Module):
            for attributes in (
                vars(base),
                *(vars(base).get(kind, {}) for kind in ("_modules", "_parameters", "_buffers")),
            ):
                if name in attributes:
                    return attributes[name]
            if base is not self.module:
                return UNKNOWN
            return self._method(0, name)
        found = inspect.getattr_static(base, name, UNKNOWN)
        if isinstance(base, type):
            if isinstance(found, staticmethod):
                return found.__func__
            if base in self.classes and inspect.isfunction(found):
                return self._method(type(self.module).__mro__.index(base), name, unbound=True)
            return found
        plain = isinstance(found, str | int | float | bool | nn.Module) or callable(found)
        return found if plain and not isinstance(found, types.FunctionType) else UNKNOWN

    def _method(self, start: int, name: str, unbound: bool = False) -> Any:
        for number, cls in enumerate(type(self.module).__mro__[start:], start):
            if name in vars(cls):
                found = vars(cls)[name]
                if isinstance(found, staticmethod):
                    return found.__func__
                if not inspect.isfunction(found):
                    return (
                        found
                        if isinstance(found, str | int | float | bool) or not hasattr(found, "__get__")
                        else UNKNOWN
                    )
                return UNKNOWN if cls not in self.classes or unbound else Bound((number, name), found)
        return UNKNOWN

    def _after(self, function: OwnFunction, name: str) -> Any:
        assert isinstance(function.place, tuple)
        return self._method(function.place[0] + 1, name)

    def _follow(self, number: int) -> None:
        """Add the functions that a function calls, as far as they are of interest."""
        function = self.functions[number]
        for place, call in enumerate(function.parsed.calls):
            target = self.value(call.func, number)
            found: int | None = None
            if isinstance(target, Bound):
                found = self._add(target.place, target.holder, is_method=True) if self._leads(target.holder) else None
            elif isinstance(target, types.FunctionType) and is_helper(target) and self._leads(target):
                if self.is_activation(target):
                    continue
                found = self._add(target, target, is_method=False)
            if found is not None:
                self.edges[number, place] = found

    def _add(self, place: Any, holder: Callable[..., Any], *, is_method: bool) -> int | None:
        function = inspect.unwrap(holder)
        if not isinstance(function, types.FunctionType):
            return None
        if function.__code__ in self.codes:
            return self.codes[function.__code__]
        parsed = parse(function)
        if parsed is None or (is_method and not (parsed.tree.args.posonlyargs or parsed.tree.args.args)):
            self._add_unreadable(Unreadable(place[1] if is_method else "", holder, function, is_method))
            return None
        name = holder.__name__ if not is_method else place[1]
        taken = {other.name for other in self.functions}
        if not is_method or any(name in vars(cls) for cls in type(self.module).__mro__[: place[0]]):
            stem = f"_adalin_{name}"
            name = next(n for n in (stem, *(f"{stem}_{k}" for k in range(1, 10_000))) if n not in taken)
        number = len(self.functions)
        self.functions.append(OwnFunction(name, place, holder, function, parsed, is_method))
        for code in codes_in(function.__code__):
            self.codes[code] = number
        return number

    def _add_unreadable(self, unreadable: Unreadable) -> None:
        function = unreadable.function
        self.unreadable.append(unreadable)
        for code in codes_in(function.__code__):
            self.unreadable_codes.append(code)
            self.codes[code] = -len(self.unreadable_codes)
        for name in names_in(function.__code__):  # what it calls cannot become a method, as its calls stay
            for number, cls in enumerate(type(self.module).__mro__):
                method = vars(cls).get(name) if cls in self.classes else None
                if inspect.isfunction(method) and name not in NO_COMPUTATION and self._leads(method):
                    self._add((number, name), method, is_method=True)
                    break
            helper = function.__globals__.get(name)
            if not isinstance(helper, types.FunctionType) or helper.__code__ in self.codes or not is_helper(helper):
                continue
            if self._leads(helper) and not self.is_activation(helper):
                self._add_unreadable(Unreadable("", helper, helper, False))

    def _leads(self, holder: Callable[..., Any], depth: int = 6) -> bool:
        """Whether a function, or one that it names, is of interest."""
        function = inspect.unwrap(holder)
        code = getattr(function, "__code__", None)
        if not isinstance(code, types.CodeType) or not isinstance(function, types.FunctionType):
            return False
        if depth == 0:
            return False
        if self._leading.get(code, (False, 0))[1] < depth and not self._leading.get(code, (False, 0))[0]:
            self._leading[code] = False, depth  # while on the way, for functions that call themselves
            names = names_in(code)
            found = self.interesting(names, function)
            if not found:
                members = [vars(cls).get(name) for name in names for cls in self.classes]
                others = [function.__globals__.get(name) for name in names] + _closure(function)
                modules = [one for one in others if isinstance(one, types.ModuleType) and _is_own(one)]
                others += [vars(one).get(name) for one in modules for name in names]  # getattr may import
                pending = [m.__func__ if isinstance(m, staticmethod) else m for m in members]
                pending += [o for o in others if inspect.isfunction(o) and is_helper(o)]
                found = any(inspect.isfunction(one) and self._leads(one, depth - 1) for one in pending)
            self._leading[code] = found, depth
        return self._leading[code][0]


def own_classes(cls: type) -> list[type]:
    """The classes of a module that are somebody's own, not torch's or Python's."""
    return [c for c in cls.__mro__ if c not in nn.Module.__mro__ and c.__module__.partition(".")[0] not in FOREIGN]


def is_helper(function: Callable[..., Any]) -> bool:
    """Whether a function is somebody's own."""
    module = getattr(inspect.unwrap(function), "__module__", None) or ""
    return module.partition(".")[0] not in FOREIGN and not isinstance(function, torch.jit.ScriptFunction)


def _is_own(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] not in FOREIGN


def _closure(function: types.FunctionType) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found


@cache
def codes_in(code: types.CodeType) -> tuple[types.CodeType, ...]:
    """A code object and all that are nested in it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return (code, *(one for constant in inner for one in codes_in(constant)))


@cache
def names_in(code: types.CodeType) -> set[str]:
    """The names that a code uses, local ones left out."""
    return {name for one in codes_in(code) for name in (*one.co_names, *one.co_freevars)}


def parse(function: types.FunctionType) -> Parsed | None:
    """The source of a function; None where there is none, as for lambdas and code that was made from a string."""
    return _parse(function.__code__)


@cache
def _parse(code: types.CodeType) -> Parsed | None:
    try:
        lines, first = inspect.getsourcelines(code)
        indented = lines[0][:1].isspace()
        text = "if True:\n" + "".join(lines) if indented else "".join(lines)
        body = ast.parse(text).body
    except (OSError, SyntaxError, TypeError, IndexError):
        return None
    tree: Any = body[0].body[0] if indented and isinstance(body[0], ast.If) else body[0]  # the columns stay
    if not isinstance(tree, ast.FunctionDef) or tree.name != code.co_name:
        return None
    shift = first - 1 - indented if first else 0
    calls = tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    ends = {((call.end_lineno or 0) + shift, call.end_col_offset or 0): i for i, call in enumerate(calls)}
    looping = {id(call) for loop in ast.walk(tree) if isinstance(loop, LOOPS) for call in ast.walk(loop)}
    return Parsed(tree, calls, ends, frozenset(i for i, call in enumerate(calls) if id(call) in looping))


@cache
def _positions(code: types.CodeType) -> list[Any]:
    return list(code.co_positions()) if hasattr(code, "co_positions") else []


def _end(code: types.CodeType, instruction: int) -> tuple[int, int] | None:
    """Line and column where the expression ends that an instruction belongs to."""
    positions = _positions(code)
    if instruction < 0 or instruction // 2 >= len(positions):
        return None
    _, line, _, column = positions[instruction // 2]
    return None if line is None or column is None else (line, column)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args


@cache
def _locals(tree: ast.FunctionDef) -> dict[str, int]:
    """How often each name is bound in a function or in one nested in it."""
    times: dict[str, int] = {}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        elif isinstance(node, ast.FunctionDef) and node is not tree:
            names = [node.name]
        elif isinstance(node, ast.alias):
            names = [(node.asname or node.name).partition(".")[0]]
        for name in names:
            times[name] = times.get(name, 0) + 1
    return times


def _is_local(tree: ast.FunctionDef, name: str) -> bool:
    return name in _locals(tree)


def _binds_once(tree: ast.FunctionDef, name: str) -> bool:
    return _locals(tree).get(name, 0) == 1
