"""Which activations a model calls while it runs: modules and functions, under the names that `convert` gives them."""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from adalin.nn import FUNCTIONS, MODULES, Concatenated, Fixed, PerNeuron, module_base
from adalin.structure._owners import TRANSFORMER_LAYERS

ACTIVATION_CLASSES = (PerNeuron, Concatenated, Fixed, nn.PReLU, *(cls for cls in MODULES if cls is not nn.Identity))
"""Modules that are activations whatever their code is."""
OTHER_FUNCTIONS = ("glu", "hardshrink", "hardsigmoid", "logsigmoid", "prelu", "rrelu", "softshrink", "tanhshrink")
"""Activations that AdaLin has no base for; a threshold, and clamping below at 0, are others."""


def _functions() -> dict[Any, str]:
    found: dict[Any, str] = dict(FUNCTIONS)
    for name in (*OTHER_FUNCTIONS, "threshold"):
        for space in (F, torch, torch.Tensor):
            for attribute in (name, f"{name}_"):
                if callable(function := getattr(space, attribute, None)):
                    found[function] = name
    return found


ACTIVATION_FUNCTIONS = _functions()
CLAMPS = {getattr(space, name) for space in (torch, torch.Tensor) for name in ("clamp", "clamp_", "clip", "clip_")}
CLAMPS |= {getattr(space, name) for space in (torch, torch.Tensor) for name in ("clamp_min", "clamp_min_")}


@dataclass(frozen=True, eq=False)
class ActivationCall:
    """One call of an activation."""

    name: str
    """Name of the place that calls it: equal in every run."""
    activation: str
    """Name of the base, or of the class or function where AdaLin has no base for it."""
    owner: str
    """Path of the module whose forward calls it."""
    module: nn.Module | None = None
    """Module that is called; None for a function."""
    function: Callable[..., Any] | None = None
    """Function or tensor method that is called; None for a module."""
    inplace: bool = False
    """Whether it may write into what it is given."""


@dataclass(eq=False)
class _Frame:
    """A forward that is under way."""

    module: nn.Module
    path: str
    names: Counter[str] = field(default_factory=Counter)
    calls: Counter[int] = field(default_factory=Counter)
    atom: ActivationCall | None = None
    starts: bool = False
    """Whether `atom` is this forward, and not one around it."""
    kept: Any = None
    found: bool = False


class ActivationWatch(TorchFunctionMode, ABC):
    """While it is entered, sees every activation that a model calls in this thread.

    An activation is a module of a known class, a module without parameters and children that calls activation functions
    on its only tensor (a hand-written GELU), or a call of a function. Not seen: what compiled or scripted code calls.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._paths: dict[int, str] = {}
        for path, module in model.named_modules():
            self._paths[id(module)] = path
        self._inner: dict[int, dict[int, list[str]]] = {}
        self._frames = [_Frame(model, "")]
        self._thread = threading.get_ident()
        self._handles: list[Any] = []

    @abstractmethod
    def before(self, call: ActivationCall, given: Tensor) -> Any:
        """What to keep of the input of a module or function that may turn out to be an activation."""

    @abstractmethod
    def after(self, call: ActivationCall, kept: Any, result: Any) -> None:
        """An activation has been called."""

    def __enter__(self) -> "ActivationWatch":
        self._handles = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module),
        ]
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        for handle in self._handles:
            handle.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = ACTIVATION_FUNCTIONS.get(func) or _clamped(func, args, kwargs)
        given = args[0] if args else kwargs.get("input")
        frame = self._frames[-1]
        if name is None or not _is_number(given) or threading.get_ident() != self._thread:
            return func(*args, **kwargs)
        if frame.atom is not None:
            frame.found = True
            return func(*args, **kwargs)
        inplace = func.__name__.endswith("_") or bool(kwargs.get("inplace")) or any(value is True for value in args)
        call = ActivationCall(self._function_name(frame, name), name, frame.path, function=func, inplace=inplace)
        kept = self.before(call, given)
        result = func(*args, **kwargs)
        self.after(call, kept, result)
        return result

    def _enter_module(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread:
            return
        if module is self.model and len(self._frames) == 1:
            self._frames = [_Frame(module, "")]  # names begin anew with each run
            return
        outer = self._frames[-1]
        tensors = [value for value in args if isinstance(value, Tensor)]
        frame = _Frame(module, self._path(outer, module))
        if outer.atom is not None:
            frame.atom = outer.atom
        elif len(tensors) == 1 and _is_number(tensors[0]) and _may_be_activation(module):
            inplace = bool(getattr(module, "inplace", not is_activation_class(module)))
            name = self._module_name(outer, module)
            frame.atom = ActivationCall(name, _activation_name(module), outer.path, module, inplace=inplace)
            frame.starts = True
            frame.found = is_activation_class(module)
            frame.kept = self.before(frame.atom, tensors[0])
        self._frames.append(frame)

    def _leave_module(self, module: nn.Module, args: Any, result: Any) -> None:
        if threading.get_ident() != self._thread or self._frames[-1].module is not module or len(self._frames) == 1:
            return
        frame = self._frames.pop()
        outer = self._frames[-1]
        if not frame.starts:
            outer.found = outer.found or (frame.found and outer.atom is not None)
        elif frame.found:
            assert frame.atom is not None
            outer.calls[id(module)] += 1
            self.after(frame.atom, frame.kept, result)

    def _path(self, outer: _Frame, module: nn.Module) -> str:
        """Path of a module in the model; one that its caller has just made is named by its class."""
        if id(module) in self._paths:
            return self._paths[id(module)]
        return f"{outer.path}.{type(module).__name__}".lstrip(".")

    def _module_name(self, outer: _Frame, module: nn.Module) -> str:
        """Name of a call of a module: its path below its caller, with a number from the second call on."""
        if id(outer.module) not in self._inner:
            inner: dict[int, list[str]] = {}
            for path, child in outer.module.named_modules(remove_duplicate=False):
                inner.setdefault(id(child), []).append(path)
            self._inner[id(outer.module)] = inner
        names = self._inner[id(outer.module)].get(id(module))
        before = outer.calls[id(module)]
        if names is None:
            return self._path(outer, module) if before == 0 else f"{self._path(outer, module)}_{before}"
        if before < len(names):
            return f"{outer.path}.{names[before]}".lstrip(".")
        stem = names[0].rpartition(".")[2]
        stem = stem if stem.isidentifier() else _activation_name(module)
        return f"{outer.path}.{self._free(outer, stem, 1)}".lstrip(".")

    def _function_name(self, frame: _Frame, name: str) -> str:
        if isinstance(frame.module, TRANSFORMER_LAYERS):
            name = "activation"
            return f"{frame.path}.{name}".lstrip(".")
        return f"{frame.path}.{self._free(frame, name, 0)}".lstrip(".")

    def _free(self, frame: _Frame, stem: str, number: int) -> str:
        """The next name that the caller has neither used nor got an attribute of."""
        number = max(number, frame.names[stem])
        while _has(frame.module, candidate := f"{stem}_{number}" if number else stem):
            number += 1
        frame.names[stem] = number + 1
        return candidate


class _Observer(ActivationWatch):
    def __init__(self, model: nn.Module, see: Callable[[ActivationCall, Tensor, Tensor], None]) -> None:
        super().__init__(model)
        self.see = see

    def before(self, call: ActivationCall, given: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return given.clone() if call.inplace else given

    def after(self, call: ActivationCall, kept: Tensor, result: Any) -> None:
        if isinstance(result, Tensor):
            with torch._C.DisableTorchFunction():
                self.see(call, kept, result)


@contextmanager
def watch_activations(model: nn.Module, see: Callable[[ActivationCall, Tensor, Tensor], None]) -> Iterator[None]:
    """Call `see(call, input, output)` for each activation that the model calls meanwhile, in this thread.

    Names are those of `find_units`. Nothing of the model changes; what an activation overwrites is copied before. In
    `see`, operations on tensors are not watched.
    """
    with _Observer(model, see):
        yield


def is_activation_class(module: nn.Module) -> bool:
    """Whether a module is an activation by its class, or says so itself by `is_activation = True`."""
    return isinstance(module, ACTIVATION_CLASSES) or getattr(type(module), "is_activation", False) is True


def _may_be_activation(module: nn.Module) -> bool:
    bare = not (module._modules or module._parameters or module._buffers)
    return is_activation_class(module) or (bare and not isinstance(module, nn.Sequential))


def _activation_name(module: nn.Module) -> str:
    return module_base(module).name if type(module) in MODULES else type(module).__name__


def _clamped(func: Any, args: Any, kwargs: Any) -> str | None:
    """Clamping below at 0, which is ReLU."""
    if func not in CLAMPS:
        return None
    bounds = [*args[1:], *kwargs.values()]
    return "relu" if len(bounds) == 1 and isinstance(bounds[0], int | float) and bounds[0] == 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _has(module: nn.Module, name: str) -> bool:
    """Whether a module has an attribute, without asking a `__getattr__` of its own."""
    instance = any(name in vars(module)[kind] for kind in ("_modules", "_parameters", "_buffers"))
    return instance or name in vars(module) or any(name in vars(cls) for cls in type(module).__mro__)
