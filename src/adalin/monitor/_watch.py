"""What hidden activations get and give while a model runs, whether they are modules or function calls.

No code is traced or rewritten: a `TorchFunctionMode` sees the calls of a forward as they happen, decisions by values
included, and hooks that live as long as the pass see the activation modules.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from adalin.metrics import hidden_activations
from adalin.nn import FUNCTIONS, MODULES
from adalin.structure import LEFT_ALONE

ROWS = 512
"""Rows that are kept per activation: inputs, or places of an image."""
CALLS = 4
"""Calls of one activation in a forward that count as layers of their own; later ones add to the last."""
PRODUCTS: dict[Callable[..., Any], int] = {
    F.linear: -1,
    torch.matmul: -1,
    torch.Tensor.matmul: -1,
    torch.Tensor.__matmul__: -1,
    torch.addmm: -1,
    F.bilinear: -1,
}
"""Products with weights, and the axis of the units in what they give."""
for _n in (1, 2, 3):
    for _space in (F, torch):
        for _name in (f"conv{_n}d", f"conv_transpose{_n}d"):
            PRODUCTS[getattr(_space, _name)] = -1 - _n
_BOUNDED = frozenset({"sigmoid", "tanh"})
"""Activations that usually give a model's output where no product follows."""
_GATES = frozenset(LEFT_ALONE)


@dataclass(eq=False)
class Activations:
    """One call of an activation in the forward, in all batches of a pass: a hidden layer."""

    name: str
    """Path of the module whose product makes the units; the activation's own where there is none."""
    base: str
    """Name of the activation."""
    site: str | None
    """Path of the activation, if it is a module."""
    weight: str | None
    """Name of the parameter that makes the units."""
    function: Callable[[Tensor], Tensor] | None
    """The activation itself, for its slope; None where it does not keep the shape."""
    axis: int
    """Axis of the units, counted from the end."""
    dims: int
    """Number of axes of what it gets."""
    order: int
    """Number of products before it."""
    inputs: list[Tensor] = field(default_factory=list)
    """Inputs of each batch, (rows, units)."""
    outputs: list[Tensor] = field(default_factory=list)
    """Outputs of each batch, (rows, units)."""


class Watch(TorchFunctionMode):
    """While entered, notes every activation of a model's forward. Inputs pass through `run`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._found: dict[str, Activations] = {}
        self._calls: Counter[str] = Counter()
        self._path: list[str] = []
        self._inside: list[tuple[str, Tensor]] = []
        self._weight: str | None = None
        self._layer, self._axis, self._products, self._most = "", -1, 0, 0
        self._handles: list[Any] = []

    def __enter__(self) -> "Watch":
        activations = hidden_activations(self._model)
        for name, module in self._model.named_modules():
            inside = any(name.startswith(f"{outer}.") for outer in activations)
            if name in activations:
                self._handles.append(module.register_forward_pre_hook(self._begin(name)))
                self._handles.append(module.register_forward_hook(self._end(name)))
            elif not inside:
                self._handles.append(module.register_forward_pre_hook(self._enter_module(name)))
                self._handles.append(module.register_forward_hook(self._leave_module, always_call=True))
        # Torch's transformer layers call one fused kernel in eval mode, in which activations cannot be seen.
        self._fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.backends.mha.set_fastpath_enabled(self._fast)
        for handle in self._handles:
            handle.remove()

    def run(self, call: Callable[[], Any]) -> Any:
        """One forward."""
        self._calls.clear()
        self._path.clear()
        self._inside.clear()
        self._weight, self._layer, self._axis, self._products = None, "", -1, 0
        return call()

    def layers(self) -> list[Activations]:
        """Hidden layers in the order in which they are first called.

        A sigmoid or tanh without a product after it gives the output; a sigmoid beside other activations is a gate.
        """
        found = list(self._found.values())
        hidden = [layer for layer in found if not (layer.base in _BOUNDED and layer.order == self._most)]
        others = [layer for layer in hidden if layer.base not in _GATES]
        return others or hidden

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            return function(*args, **kwargs)
        if function in PRODUCTS:
            self._note_product(function, args, kwargs)
            return function(*args, **kwargs)
        name = FUNCTIONS.get(function)
        x = args[0] if args else kwargs.get("input")
        if name is None or not isinstance(x, Tensor) or x.dim() < 2 or not x.is_floating_point():
            return function(*args, **kwargs)
        before = x.clone()  # some work in place, and say so in several ways
        result = function(*args, **kwargs)
        rest = tuple(value for value in args[1:] if not isinstance(value, bool))
        options = {key: value for key, value in kwargs.items() if key not in ("inplace", "input")}
        plain = getattr(F, name, None) or getattr(torch, name)
        self._record(None, name, lambda z: plain(z, *rest, **options), before, result)
        return result

    def _note_product(self, function: Any, args: Any, kwargs: Any) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        named = [self._names[id(tensor)] for tensor in tensors if id(tensor) in self._names]
        wide = [name for name in named if self._model.get_parameter(name).dim() > 1]
        path = self._path[-1] if self._path else ""
        is_layer = bool(wide) or (function not in _MATMULS and bool(path))
        if is_layer:  # a product of two activations, as in attention, makes no layer
            self._weight = wide[0] if wide else None
            self._layer = path or (wide[0].rpartition(".")[0] if wide else "")
            if not self._layer and wide:
                self._layer = wide[0]
            self._axis = PRODUCTS[function]
            self._products += 1
            self._most = max(self._most, self._products)

    def _enter_module(self, name: str) -> Any:
        def hook(module: nn.Module, arguments: Any) -> None:
            self._path.append(name)

        return hook

    def _leave_module(self, module: nn.Module, arguments: Any, result: Any) -> None:
        if self._path:
            self._path.pop()

    def _begin(self, name: str) -> Any:
        def hook(module: nn.Module, arguments: Any) -> None:
            x = arguments[0] if arguments and isinstance(arguments[0], Tensor) else torch.empty(0)
            self._inside.append((name, x.clone()))

        return hook

    def _end(self, name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, result: Any) -> None:
            if not self._inside or self._inside[-1][0] != name:
                return
            _, x = self._inside.pop()
            if self._inside or not isinstance(result, Tensor) or x.dim() < 2:
                return
            dim = getattr(module, "dim", None)
            own = dim - x.dim() if isinstance(dim, int) and dim >= 0 else dim
            keeps = result.shape == x.shape
            base = MODULES[type(module)][0] if type(module) in MODULES else type(module).__name__
            self._record(name, base, module if keeps else None, x, result, own if isinstance(own, int) else None)

        return hook

    def _record(
        self,
        site: str | None,
        base: str,
        function: Callable[[Tensor], Tensor] | None,
        x: Tensor,
        y: Tensor,
        own_axis: int | None = None,
    ) -> None:
        key = self._layer or site or base
        axis = self._axis if own_axis is None else own_axis
        self._calls[key] += 1
        call = min(self._calls[key], CALLS)
        key = key if call == 1 else f"{key}#{call}"
        if -axis > x.dim():
            axis = 1 - x.dim()
        layer = self._found.get(key)
        if layer is None:
            layer = Activations(key, base, site, self._weight, function, axis, x.dim(), self._products)
            self._found[key] = layer
        layer.inputs.append(rows_of(x, axis))
        layer.outputs.append(rows_of(y, axis if y.dim() == x.dim() else -1))


_MATMULS = frozenset({torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.addmm})


def rows_of(x: Tensor, axis: int) -> Tensor:
    """(rows, units): at most `ROWS`, evenly spaced over inputs and places."""
    x = x.detach().movedim(axis, -1)
    count = x[..., 0].numel()
    if count <= ROWS:
        return x.flatten(0, -2).float()
    places = torch.arange(ROWS, device=x.device) * count // ROWS
    return x[torch.unravel_index(places, x.shape[:-1])].float()  # no copy of the rest
