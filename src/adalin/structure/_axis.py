"""The axis of the neurons at an activation, and how many there are: those of the layer before it.

Axes are counted from the end, so that they hold with and without a batch axis.
"""

import operator
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from adalin.nn import FUNCTIONS
from adalin.structure._owners import Owner, Site, Structure, is_transformer_layer


@dataclass(frozen=True)
class Axis:
    """Where the neurons are and how many. None stands for not known: the first forward decides."""

    dim: int | None = None
    """Axis of the neurons, counted from the end."""
    width: int | None = None
    """Number of neurons."""
    module: nn.Module | None = None
    """Layer that says so."""
    doubt: str = field(default="", compare=False)
    """Operation behind which nobody can tell; the first forward would guess."""


KEEPING_FILES = {
    "adalin.nn._adalin",
    *(f"torch.nn.modules.{file}" for file in ("dropout", "activation", "padding", "pooling", "upsampling")),
}
KEEPING_CLASSES = {"Identity", "DropPath", "StochasticDepth", "LayerScale", "LayerScale2d", "DropBlock2d"}
KEEPING_NAMES = {
    *("add", "clamp", "clone", "contiguous", "detach", "div", "dropout", "float", "iadd", "imul", "interpolate", "mul"),
    *("neg", "sub", "to", "truediv", "dropout1d", "dropout2d", "dropout3d"),
    *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
    *(f"{kind}_pool{n}d" for kind in ("avg", "max", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)),
}
KEEPING_FUNCTIONS: set[Any] = {
    *FUNCTIONS,
    *(getattr(space, name) for space in (operator, torch, F) for name in KEEPING_NAMES if hasattr(space, name)),
}
FUNCTIONAL_LAYERS = {F.linear: -1, torch.matmul: -1, operator.matmul: -1}
FUNCTIONAL_LAYERS |= {getattr(space, f"conv{n}d"): -1 - n for space in (F, torch) for n in (1, 2, 3)}
RESIZING = {"chunk", "split", torch.chunk, torch.split, torch.cat, torch.concat, torch.concatenate}
"""What keeps the axis, but not the number of neurons."""
FLATTENING = {"flatten"}
REDUCING = {"mean", "sum", "amax", "amin", "max", "min", "squeeze", "logsumexp", "getitem", "select", "size", "getattr"}
"""What leaves no more than two axes as a rule, of which the first forward takes the right one."""
PERMUTING = {"permute", torch.permute}
SWAPPING = {"transpose", "swapaxes", "swapdims", torch.transpose, torch.swapaxes, torch.swapdims}
NORMS = (_BatchNorm, _InstanceNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Layers with as many neurons at the input as at the output."""


def axis_of(structure: Structure, site: Site) -> Axis:
    """The axis at a site, by walking back through the graphs to the nearest layer that knows."""
    if is_transformer_layer(site.owner.module):
        return _layer_axis(site.owner.module.get_submodule("linear1")) or Axis()
    if not site.nodes:
        return _of_weights_around(structure, site)
    walk = _Walk(structure)
    found = {walk.back(site.owner, node.all_input_nodes[0]) or Axis() for node in site.nodes}
    if len(found) == 1:
        return found.pop()
    dims = {axis.dim for axis in found if axis.dim is not None}
    return Axis(dims.pop()) if len(dims) == 1 else Axis()


def _of_weights_around(structure: Structure, site: Site) -> Axis:
    """Where nothing could be traced: what all layers of the nearest module with weights have in common."""
    path = site.owner.path
    while True:
        home = structure.model.get_submodule(path)
        dims = {axis.dim for module in home.modules() if (axis := _layer_axis(module)) is not None}
        if dims or not path:
            return Axis(dims.pop()) if len(dims) == 1 else Axis()
        path = path.rpartition(".")[0]


def _layer_axis(module: nn.Module) -> Axis | None:
    """What a layer's output says; a width without an axis where the layer takes inputs of several ranks."""
    if isinstance(module, nn.Linear):
        return Axis(-1, module.out_features, module)
    if isinstance(module, _ConvNd):
        return Axis(-1 - len(module.kernel_size), module.out_channels, module)
    if isinstance(module, _BatchNorm | _InstanceNorm):
        ranks = {"2d": -3, "3d": -4}
        dim = next((ranks[cls.__name__[-2:]] for cls in type(module).__mro__ if cls.__name__[-2:] in ranks), None)
        return Axis(dim, module.num_features or None, module)  # a lazy one has 0 until its first input
    if isinstance(module, nn.GroupNorm):
        return Axis(None, module.num_channels, module)
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        if len(module.normalized_shape) > 1:
            return None  # over the neurons' axis and others
        channels_first = type(module).__name__.endswith("2d")  # LayerNorm2d of timm and torchvision
        return Axis(-3 if channels_first else -1, module.normalized_shape[-1], module)
    if isinstance(module, nn.MultiheadAttention):
        return Axis(-1, module.embed_dim, module)
    return None


def _keeps_axis(operation: Any) -> bool:
    """A module, function or name of a tensor method that changes neither the neurons' axis nor their number."""
    if isinstance(operation, nn.GLU):
        return False
    if isinstance(operation, nn.Module):
        return type(operation).__module__ in KEEPING_FILES or type(operation).__name__ in KEEPING_CLASSES
    if isinstance(operation, str):
        return operation.rstrip("_") in KEEPING_NAMES or getattr(torch.Tensor, operation, None) in FUNCTIONS
    return operation in KEEPING_FUNCTIONS


def _resized(operation: Any, axis: Axis | None) -> Axis | None:
    """The axis behind pooling, padding and upsampling, which change the size of the last axes."""
    if axis is None or axis.dim != -1:
        return axis
    name = type(operation).__module__ if isinstance(operation, nn.Module) else getattr(operation, "__name__", operation)
    resizes = any(part in str(name) for part in ("pool", "padding", "upsampling", "interpolate"))
    return Axis(axis.dim, None, axis.module) if resizes else axis


def _is_slice(node: fx.Node) -> bool:
    """Whether a node takes a part that has the axis in the same place from the end: a slice, or an item of a tuple."""
    if node.target is not operator.getitem:
        return False
    index = node.args[1]
    indices = index if isinstance(index, tuple) else (index,)
    return isinstance(index, int | str) or all(isinstance(item, slice | EllipsisType) for item in indices)


def _rank(node: fx.Node | None) -> int:
    """How many axes a value has, where the code gives them all, as in `view(b, n, 4, 8)`; otherwise 0."""
    while node is not None and node.op in ("call_method", "call_function"):
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if name in ("view", "reshape"):
            given = node.args[1:]
            shape = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
            return len(shape) if all(isinstance(size, int | fx.Node) for size in shape) else 0
        if not (_keeps_axis(node.target) or node.target in PERMUTING | SWAPPING) or not node.all_input_nodes:
            return 0
        node = node.all_input_nodes[0]
    return 0


def _moved(node: fx.Node, axis: Axis | None, known: int) -> Axis | None:
    """Where a transpose or permute takes the axis."""
    dims: Any = (*node.args[1:], *(value for name, value in node.kwargs.items() if name != "input"))
    if len(dims) == 1 and isinstance(dims[0], list | tuple):
        dims = dims[0]
    if axis is None or axis.dim is None or len(dims) < 2 or not all(isinstance(dim, int) for dim in dims):
        return None
    if node.target in PERMUTING:
        rank = len(dims)
        order = [dim % rank for dim in dims]
    else:  # at least batch, sequence and features, or batch, channels and what a convolution is over
        rank = max(known or 3, 1 - axis.dim, *(dim + 1 if dim >= 0 else -dim for dim in dims))
        order = list(range(rank))
        order[dims[0]], order[dims[1]] = order[dims[1]], order[dims[0]]
    return Axis(order.index(axis.dim % rank) - rank, axis.width, axis.module)


class _Walk:
    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.owners = {owner.module: owner for owner in structure.owners}
        self.known: dict[fx.Node, Axis | None] = {}

    def back(self, owner: Owner, node: Any) -> Axis | None:
        if not isinstance(node, fx.Node):
            return None
        if node not in self.known:
            self.known[node] = None  # while on the way, for modules that are called in a loop
            self.known[node] = self._find(owner, node)
        return self.known[node]

    def _find(self, owner: Owner, node: fx.Node) -> Axis | None:
        before = node.all_input_nodes[0] if node.all_input_nodes else None
        if node.op == "placeholder":
            norm = _layer_axis(owner.module) if isinstance(owner.module, NORMS) else None
            return norm or self._given(owner, node)
        if node.op == "call_module":
            return self._through(owner, owner.called(node), before)
        if node.op not in ("call_function", "call_method"):
            return None
        if node.target in FUNCTIONAL_LAYERS:
            return Axis(FUNCTIONAL_LAYERS[node.target])  # as many neurons as there turn out to be
        if node.target in PERMUTING | SWAPPING:
            axis = self.back(owner, before)
            return _moved(node, axis, _rank(before)) or (axis and Axis(None, None, axis.module))
        resized = node.target in RESIZING or _is_slice(node)
        if not resized and not _keeps_axis(node.target):
            return self._behind(owner, node)
        found = [axis for n in node.all_input_nodes if (axis := self.back(owner, n)) is not None]
        if len({axis.dim for axis in found}) != 1:
            return None
        resized = resized or len({axis.width for axis in found}) > 1  # one is broadcast along the other
        return Axis(found[0].dim, None, found[0].module) if resized else _resized(node.target, found[0])

    def _behind(self, owner: Owner, node: fx.Node) -> Axis | None:
        """Behind an operation of another shape: features stay last; where channels are, nobody can tell."""
        name = str(node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target))
        axis = next((axis for n in node.all_input_nodes if (axis := self.back(owner, n)) is not None), None)
        if axis is None or axis.dim is None:
            return axis
        if axis.dim == -1 or name in FLATTENING:
            return Axis(-1 if name != "unsqueeze" else None, None, axis.module)
        return Axis(None, None, axis.module, name if name not in REDUCING else "")

    def _given(self, owner: Owner, placeholder: fx.Node) -> Axis | None:
        """What the owner's callers pass for one of its arguments."""
        if placeholder.meta.get("method", "forward") != "forward":
            return None
        position = [n.target for n in placeholder.graph.find_nodes(op="placeholder")].index(placeholder.target)
        found = set()
        for caller, node in self.structure.callers.get(owner.module, []):
            argument = node.args[position] if position < len(node.args) else node.kwargs.get(str(placeholder.target))
            found.add(self.back(caller, argument))
        found.discard(None)
        return found.pop() if len(found) == 1 else None

    def _through(self, owner: Owner, module: nn.Module, before: fx.Node | None) -> Axis | None:
        axis = _layer_axis(module)
        if axis is not None and axis.dim is None:
            earlier = self.back(owner, before)
            if earlier is None or earlier.dim is None or earlier.width not in (None, axis.width):
                return Axis(1, axis.width, module)
            return Axis(earlier.dim, axis.width, module)
        if axis is not None:
            return axis
        if _keeps_axis(module) or isinstance(module, NORMS):
            return _resized(module, self.back(owner, before))
        inner = self.owners.get(module)
        if inner is not None and inner.variants:
            (output,) = inner.variants[0].graph.find_nodes(op="output")
            return self.back(inner, output.all_input_nodes[0]) if output.all_input_nodes else None
        last = [axis for m in module.modules() if (axis := _layer_axis(m)) is not None and axis.dim is not None]
        return Axis(last[-1].dim, None, last[-1].module) if last else None  # its layers may be called in any order
