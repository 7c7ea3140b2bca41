"""Where the units of a model go while it runs, operation by operation.

Each tensor carries labels: for each of its numbers, the unit it belongs to. What moves numbers (views, slices,
concatenations) moves labels in the same way, by the same operation. What combines tensors number by number says that
their units are the same. A product with weights ends one layer's units and begins the next one's. So only products,
norms and reductions need rules of their own. What has none is marked, and units that go through it are said to be lost.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from adalin.nn import PerNeuron
from adalin.structure._atoms import NONE, Atoms, along, compact, distinct, labels_along, varying
from adalin.structure._calls import ActivationCall

Gives = Literal["parameter", "input", "product", "norm", "scale", "shift", "site", "sum", "gate", "joined"]
Reads = Literal["output", "mixed", "lost"]
Kind = Gives | Reads

MOVING = {
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "t", "transpose", "permute", "expand", "slice", "select"),
    *("squeeze", "unsqueeze", "split", "split_with_sizes", "chunk", "unbind", "flip", "roll", "narrow", "alias"),
    *("detach", "as_strided", "index", "index_select", "gather", "unfold", "repeat", "pixel_shuffle", "diagonal"),
    *("pixel_unshuffle", "channel_shuffle", "movedim", "swapaxes", "take", "take_along_dim", "unsafe_split", "tile"),
    *("transpose_", "squeeze_", "unsqueeze_", "t_", "im2col", "view_copy", "expand_copy", "masked_select", "tril"),
    *("triu", "resolve_conj", "resolve_neg", "lift_fresh", "lift", "native_channel_shuffle", "repeat_interleave"),
}
"""What moves numbers without changing them."""
COPYING = {"clone", "_to_copy", "to", "contiguous", "native_dropout", "copy", "positive", "_to_dense"}
"""What gives a tensor of the same shape in which every number stands where it stood."""
MAKING = {f"{kind}_like" for kind in ("zeros", "ones", "empty", "full", "rand", "randn")}
MAKING |= {f"new_{kind}" for kind in ("zeros", "ones", "empty", "full", "empty_strided")}
"""What takes only the shape of a tensor."""
COLLECTING = {"cat", "stack", "concat", "hstack", "vstack"}
POINTWISE = {"_prelu_kernel", "rrelu_with_noise", "masked_fill", "rrelu_with_noise_functional", "lerp", "addcmul"}
POINTWISE |= {"_weight_norm_interface", "log_sigmoid_forward", "hardswish", "hardswish_", "rrelu", "rrelu_", "celu"}
POINTWISE |= {"hardsigmoid", "hardsigmoid_", "softshrink", "hardshrink", "mish", "mish_", "softplus", "threshold"}
POINTWISE |= {"nan_to_num", "nan_to_num_", "lerp_", "addcmul_", "addcdiv", "addcdiv_", "masked_fill_", "fill_", "zero_"}
"""Operations number by number that torch does not tag so."""
SCALING = {"mul", "mul_", "div", "div_", "multiply", "divide", "_prelu_kernel"}
REDUCING = {"sum", "mean", "amax", "amin", "max", "min", "var", "std", "var_mean", "std_mean", "norm", "prod"}
REDUCING |= {"linalg_vector_norm", "logsumexp", "median", "any", "all", "argmax", "argmin"}
ALONG_ONE = {"_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax", "cumsum", "logcumsumexp", "sort"}
NORMS = {"native_batch_norm", "native_layer_norm", "native_group_norm", "_fused_rms_norm", "cudnn_batch_norm"}
NORMS |= {"_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_batch_norm_with_update"}
NORMS |= {"_batch_norm_no_update", "batch_norm_with_update", "miopen_batch_norm"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv"}
OWN_NUMBERS = "each is combined with a number of its own that is no parameter, such as an input"
SPATIAL = ("pool", "upsample", "_pad")


@dataclass(eq=False)
class Node:
    """A step on the way of the units: what gives a tensor that carries them, or what reads one."""

    kind: Kind
    number: int
    inputs: list[tuple["Node", Tensor]] = field(default_factory=list)
    """Numbers that it takes from other nodes, and the atoms of these numbers."""
    readers: list[tuple["Node", Tensor]] = field(default_factory=list)
    """Nodes that take numbers from this one, and their atoms."""
    parameters: tuple[str, ...] = ()
    """Parameters that take part: weights of a product, gains of a norm."""
    shifts: tuple[str, ...] = ()
    """Biases of a product, shifts of a norm."""
    computed: bool = False
    """Whether these are computed from parameters by more than factors: a 0 among the ones is none among the others."""
    statistics: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Running means and variances of a norm."""
    written: Tensor | None = None
    """Atoms of the weights' axis that a product writes along."""
    read: Tensor | None = None
    """Atoms of the weights' axis that a product sums over."""
    call: ActivationCall | None = None
    """Activation of a site."""
    given: Tensor | None = None
    """Labels of what a site is given; None where they are not known."""
    rank: int = 0
    """Number of axes of what a site is given."""
    text: str = ""
    """Half a sentence on what a reader does."""


@dataclass(eq=False)
class _Value:
    """A tensor that carries units."""

    tensor: Tensor
    tracks: list[Tensor]
    """Labels, one tensor of them for each axis along which units lie."""
    node: Node
    is_data: bool
    """Whether it depends on the inputs, and not on parameters alone."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.node.parameters if self.node.kind == "parameter" else ()


@dataclass(frozen=True)
class _Before:
    """What an activation was given."""

    shape: torch.Size
    tracks: list[Tensor]
    node: Node | None


class Flow(TorchDispatchMode):
    """Follows the units through all that runs while it is entered."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.atoms = Atoms()
        self.nodes: list[Node] = []
        self.names: dict[int, str] = {}
        self._values: dict[int, _Value] = {}
        self._random: dict[int, Tensor] = {}
        self._storages: dict[int, list[_Value]] = {}
        self._paused = 0
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.dim() and tensor.layout == torch.strided:
                self.names[id(tensor)] = name
                self._keep(tensor, self._tracks_of(name, tensor), self._node("parameter", parameters=(name,)), False)

    def give_inputs(self, tensors: Iterable[Tensor]) -> None:
        """Say what the model is run on."""
        for tensor in tensors:
            if id(tensor) not in self._values:
                self._keep(tensor, [], self._node("input"), True)

    def give_outputs(self, tensors: Iterable[Tensor]) -> None:
        """Say what the model returned."""
        for tensor in tensors:
            if value := self._values.get(id(tensor)):
                self._read(value, "output", "its outputs are the model's outputs")

    def before(self, call: ActivationCall, given: Tensor) -> "_Before":
        """What an activation is given, before it may be overwritten."""
        value = self._values.get(id(given))
        if _is_opaque(call):
            self._paused += 1
        return _Before(given.shape, [] if value is None else list(value.tracks), None if value is None else value.node)

    def after(self, call: ActivationCall, before: "_Before", result: Any) -> None:
        """Make a site of an activation."""
        if _is_opaque(call):
            self._paused -= 1
        own = [] if call.module is None else list(call.module.parameters(recurse=False))
        names = tuple(self.names[id(parameter)] for parameter in own if id(parameter) in self.names)
        labels = _of_nearest_product(before)
        links = [] if before.node is None else [(before.node, distinct(track)) for track in before.tracks]
        site = self._node("site", links, names, call=call, given=labels, rank=len(before.shape))
        if not isinstance(result, Tensor):
            return
        tracks = before.tracks if _is_opaque(call) else []
        if value := self._values.get(id(result)):
            tracks = value.tracks
        if _is_opaque(call) and labels is not None and len(axes := varying(labels)) == 1:
            for name in names:
                alphas = self.atoms.axes.get((name, 0))
                if alphas is not None and alphas.numel() == before.shape[axes[0]]:
                    self.atoms.join(labels, labels_along(alphas, axes[0], before.shape))
        self._set(result, tracks, site, True)

    # ------------------------------------------------------------------ bookkeeping

    def _node(
        self,
        kind: Kind,
        inputs: Sequence[tuple[Node, Tensor]] = (),
        parameters: tuple[str, ...] = (),
        **more: Any,
    ) -> Node:
        node = Node(kind, len(self.nodes), list(inputs), parameters=parameters, **more)
        for other, atoms in inputs:
            other.readers.append((node, atoms))
        self.nodes.append(node)
        return node

    def _tracks_of(self, name: str, tensor: Tensor) -> list[Tensor]:
        sizes = enumerate(tensor.shape)
        return [labels_along(self.atoms.along(name, k, n), k, tensor.shape) for k, n in sizes if n > 1]

    def _keep(self, tensor: Tensor, tracks: list[Tensor], node: Node, is_data: bool) -> _Value:
        value = _Value(tensor, tracks, node, is_data)
        self._values[id(tensor)] = value
        if tensor.layout == torch.strided:
            self._storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(value)
        return value

    def _set(self, tensor: Tensor, tracks: list[Tensor], node: Node, is_data: bool) -> None:
        """Say what a tensor carries now; if it was written to, so were those that share its memory."""
        old = self._values.get(id(tensor))
        if old is None:
            self._keep(tensor, tracks, node, is_data)
            return
        changed = old.node is not node
        old.tracks, old.node, old.is_data = tracks, node, is_data
        if changed:
            self._written(old)

    def _written(self, value: _Value) -> None:
        tensor = value.tensor
        if not tensor.numel() or tensor.layout != torch.strided:
            return
        for other in self._storages.get(tensor.untyped_storage().data_ptr(), []):
            if other is value or other.node is value.node or self._values.get(id(other.tensor)) is not other:
                continue
            whole = other.tensor.numel() == tensor.numel() and other.tensor.data_ptr() == tensor.data_ptr()
            other.node = value.node if whole else self._node("sum", [*self._links(other), *self._links(value)])
            other.is_data = other.is_data or value.is_data
        if tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size():
            base = [other for other in self._storages[tensor.untyped_storage().data_ptr()] if other is not value]
            if not any(other.tensor.numel() > tensor.numel() for other in base):
                self._read(value, "lost", "its outputs are written into a part of another tensor")

    def _links(self, value: _Value) -> list[tuple[Node, Tensor]]:
        return [(value.node, distinct(track)) for track in value.tracks]

    def _read(self, value: _Value, kind: Kind, text: str, tracks: Sequence[Tensor] | None = None) -> None:
        for track in value.tracks if tracks is None else tracks:
            if value.node.kind != "parameter":
                self._node(kind, [(value.node, distinct(track))], text=text)

    # ------------------------------------------------------------------ operations

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside, and torch's compiler takes seconds to import

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self._paused:
            return result
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        name = func._schema.name.partition("::")[2]
        if torch.Tag.nondeterministic_seeded in func.tags:
            for tensor in results:
                self._random[id(tensor)] = tensor
        known = [self._values[id(t)] for t in operands if id(t) in self._values]
        if not known:
            if results and operands and all(id(t) in self._random for t in operands):
                self._random.update({id(t): t for t in results})
            return result
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._follow(name, func, args, kwargs, result, operands, results, known)
        return result

    def _follow(
        self,
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        result: Any,
        operands: list[Tensor],
        results: list[Tensor],
        known: list[_Value],
    ) -> None:
        numbers = [t for t in results if t.is_floating_point() or t.is_complex()]
        if not numbers or name in MAKING:
            return
        if name in PRODUCTS:
            self._product(name, args, result)
        elif name == "_grouped_mm" and args[1].dim() == 3 and args[0].dim() == 2:
            self._experts(args, result)
        elif name == "convolution":
            self._convolution(args, result)
        elif name in NORMS:
            self._norm(name, args, kwargs, numbers[0])
        elif name == "embedding":
            self._embedding(args, result)
        elif name in COPYING or name == "copy_":
            self._copy(name, args, numbers[0])
        elif name in MOVING:
            self._move(func, args, kwargs, results, known[0])
        elif name in COLLECTING:
            self._collect(func, args, kwargs, result)
        elif name == "constant_pad_nd":
            self._move(func, (*args[:2], NONE), {}, results, known[0])
        elif any(part in name for part in SPATIAL):
            self._spatial(name, numbers[0], known[0])
        elif name in REDUCING:
            self._reduce(name, args, kwargs, numbers, known[0])
        elif name in ALONG_ONE:
            self._one_axis(name, args, kwargs, numbers[0], known[0])
        elif name == "glu":
            self._glu(args, kwargs, result, known[0])
        elif name.startswith("_scaled_dot_product"):
            self._attention(args, numbers[0])
        elif name in ("index_add", "index_add_", "scatter_add", "scatter_add_"):
            self._add_at(args, numbers[0])
        elif torch.Tag.pointwise in func.tags or name in POINTWISE:
            self._pointwise(name, operands, numbers[0])
        else:
            self._lose(name, known, numbers)

    def _lose(self, name: str, known: Sequence[_Value], results: Sequence[Tensor], tracks: Any = None) -> None:
        """An operation that is not followed: what goes in is lost, and what comes out carries no units."""
        for value in known:
            self._read(value, "lost", f"its outputs go through {name.strip('_')}, which is not followed", tracks)
        is_data = any(value.is_data for value in known)
        for result in results:
            self._set(result, [], self._node("input"), is_data)

    def _pointwise(self, name: str, operands: Sequence[Tensor], result: Tensor) -> None:
        values = [(t, self._values.get(id(t))) for t in operands]
        values.sort(key=lambda item: item[1] is None or not item[1].is_data)
        has_data = any(value is not None and value.is_data for _, value in values)
        merged: dict[tuple[int, ...], Tensor] = {}
        names: list[str] = []
        links: list[tuple[Node, Tensor]] = []
        for _, value in values:
            for track in [] if value is None else value.tracks:
                assert value is not None
                labels = track.expand(result.shape)
                key = varying(labels)
                if key not in merged and has_data and not value.is_data:
                    continue  # places of a parameter that carry no units, such as positions
                if key in merged:
                    self.atoms.join(merged[key], labels)
                    if (merged[key] < 0).any():
                        merged[key] = torch.where(merged[key] < 0, labels, merged[key])
                else:
                    merged[key] = labels
                if value.is_data:
                    links.append((value.node, distinct(track)))
                else:
                    names += value.names
        for tensor, value in values:
            if value is None or (value.is_data and not value.tracks):
                self._check_constant(tensor, merged, result.shape)
        is_data = any(value is not None and value.is_data for _, value in values)
        tracks = list(merged.values())
        nodes = list(dict.fromkeys(node for node, _ in links))
        parameters = tuple(dict.fromkeys(names))
        scales = name in SCALING
        if not is_data:
            computed = not (scales or name == "_weight_norm_interface")
            computed = computed or any(value is not None and value.node.computed for _, value in values)
            node = self._node("parameter", parameters=parameters, computed=computed)
        elif len(nodes) > 1:
            node = self._node("gate" if scales else "sum", links, parameters)
        elif parameters:
            node = self._node("scale" if scales else "shift", links, parameters)
        elif nodes:
            node = nodes[0]
        else:
            node = next(value.node for _, value in values if value is not None and value.is_data)
        self._set(result, tracks, node, is_data)
        if name.endswith("_"):
            self._written(self._values[id(result)])

    def _check_constant(self, tensor: Tensor, merged: dict[tuple[int, ...], Tensor], shape: torch.Size) -> None:
        """Fix units that are combined with numbers of the run that differ between them, and are not random."""
        if tensor.numel() < 2 or id(tensor) in self._random or not tensor.is_floating_point():
            return
        expanded = tensor.expand(shape)
        for key, labels in merged.items():
            for axis in key:
                if not torch.equal(expanded.nan_to_num(), expanded.narrow(axis, 0, 1).expand(shape).nan_to_num()):
                    self.atoms.fix(
                        distinct(labels),
                        OWN_NUMBERS,
                    )
                    break

    def _copy(self, name: str, args: Any, result: Tensor) -> None:
        source = self._values.get(id(args[1] if name == "copy_" else args[0]))
        if source is None:  # numbers without units are written over units
            self._lose("copy_", [self._values[id(result)]], [result])
            return
        tracks = [track.expand(result.shape) for track in source.tracks]
        self._set(result, tracks, source.node, source.is_data)
        if name == "copy_":
            self._written(self._values[id(result)])

    def _move(self, func: Any, args: Any, kwargs: Any, results: list[Tensor], value: _Value) -> None:
        moved = [self._replay(func, args, kwargs, {id(value.tensor): track}) for track in value.tracks]
        for index, result in enumerate(results):
            tracks = [labels[index] for labels in moved if labels[index].shape == result.shape]
            tracks = [compact(track) for track in tracks if varying(track)]
            if result is value.tensor:  # transposed in place
                value.tracks = tracks
            else:
                self._keep(result, tracks, value.node, value.is_data)

    def _replay(self, func: Any, args: Any, kwargs: Any, labels: dict[int, Tensor]) -> list[Tensor]:
        """What an operation that moves numbers makes of labels."""

        def swap(leaf: Any) -> Any:
            return labels.get(id(leaf), leaf) if isinstance(leaf, Tensor) else leaf

        swapped = tree_map(swap, (args, kwargs))
        try:
            result = func(*swapped[0], **swapped[1])
        except RuntimeError:  # labels are expanded, and a view of them may not exist
            whole = tree_map(lambda leaf: leaf.contiguous() if isinstance(leaf, Tensor) else leaf, swapped)
            result = func(*whole[0], **whole[1])
        return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]

    def _collect(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        tensors = [t for t in args[0] if t.numel()]
        values = [self._values.get(id(t)) for t in tensors]
        known = [value for value in values if value is not None]
        is_data = any(value is None or value.is_data for value in values)
        axis = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % result.dim()
        data = [value for value in known if value.is_data and value.tracks]
        wanted = {varying(track) for value in data for track in value.tracks}
        groups: dict[tuple[int, ...], list[Tensor]] = {}
        for tensor, value in zip(tensors, values, strict=True):
            own = {varying(track): track for track in (value.tracks if value is not None else [])}
            for key in wanted or {key for other in known for key in map(varying, other.tracks)}:
                groups.setdefault(key, []).append(own.get(key, torch.full(tensor.shape, NONE)))
        is_stack = result.dim() > tensors[0].dim()
        tracks = []
        for key, rows in groups.items():
            if not is_stack and axis not in key:  # rows of tokens: the same units in all of them
                found = [row.narrow(axis, 0, 1) for row in rows if row.numel() and (row >= 0).any()]
                for other in found[1:]:
                    self.atoms.join(found[0], other)
                tracks.append(found[0].expand(result.shape))
            elif is_stack:
                found = [row.unsqueeze(axis) for row in rows if (row >= 0).any()]
                for other in found[1:]:
                    self.atoms.join(found[0], other)
                tracks.append(found[0].expand(result.shape))
            else:
                tracks += [compact(track) for track in self._replay(func, (rows, *args[1:]), kwargs, {})]
        names = tuple(dict.fromkeys(name for value in known if not value.is_data for name in value.names))
        if not is_data:
            computed = any(value.node.computed for value in known)
            self._keep(result, tracks, self._node("parameter", parameters=names, computed=computed), False)
            return
        links = [link for value in data for link in self._links(value)]
        nodes = {node for node, _ in links}
        node = nodes.pop() if len(nodes) == 1 and not names else self._node("joined", links, names)
        self._keep(result, tracks, node, True)

    def _spatial(self, name: str, result: Tensor, value: _Value) -> None:
        """Pooling, resizing and padding: channels stay, places change."""
        places = next((n for n in (1, 2, 3) if f"{n}d" in name), 2)
        tracks = []
        for track in value.tracks:
            if any(k >= track.dim() - places for k in varying(track)):
                self._lose(name, [value], [result])
                return
            first = track
            for k in range(track.dim() - places, track.dim()):
                first = first.narrow(k, 0, 1)
            tracks.append(first.expand(result.shape))
        self._keep(result, tracks, value.node, value.is_data)

    def _reduce(self, name: str, args: Any, kwargs: Any, results: Sequence[Tensor], value: _Value) -> None:
        dims = kwargs.get("dim", args[2] if name == "linalg_vector_norm" and len(args) > 2 else None)
        if dims is None and name not in ("linalg_vector_norm",) and len(args) > 1:
            dims = args[2] if name == "norm" and len(args) > 2 else args[1]
        rank = value.tensor.dim()
        dims = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        dims = {dim % rank for dim in dims}
        for result in results:
            tracks = []
            for track in value.tracks:
                if dims & set(varying(track)):
                    continue
                index = tuple(slice(0, 1) if k in dims else slice(None) for k in range(rank))
                tracks.append(track[index].reshape(result.shape))
            self._keep(result, tracks, value.node, value.is_data)
        for track in value.tracks:
            if dims & set(varying(track)):
                self._read(value, "mixed", f"a {name} over all units reads its outputs", [track])

    def _one_axis(self, name: str, args: Any, kwargs: Any, result: Tensor, value: _Value) -> None:
        axis = (args[1] if len(args) > 1 and isinstance(args[1], int) else kwargs.get("dim", -1)) % result.dim()
        symmetric = "softmax" in name
        for track in value.tracks:
            if axis in varying(track):
                if not symmetric:
                    self._lose(name, [value], [result])
                    return
                self._read(value, "mixed", f"a {name.strip('_')} over all units reads its outputs", [track])
        self._keep(result, list(value.tracks), value.node, value.is_data)

    def _glu(self, args: Any, kwargs: Any, result: Tensor, value: _Value) -> None:
        axis = args[1] if len(args) > 1 else kwargs.get("dim", -1)
        tracks = []
        for track in value.tracks:
            one, other = track.chunk(2, axis)
            self.atoms.join(one, other)
            tracks.append(one)
        self._keep(result, tracks, value.node, value.is_data)

    def _add_at(self, args: Any, result: Tensor) -> None:
        """Rows that are added to rows of another tensor, as experts' outputs are."""
        axis = args[1] % result.dim()
        into, source = (self._values.get(id(t)) for t in (args[0], args[3]))
        if source is None or any(axis in varying(track) for track in source.tracks):
            self._lose("index_add", [value for value in (into, source) if value is not None], [result])
            return
        tracks = [track.narrow(axis, 0, 1).expand(result.shape) for track in source.tracks]
        if into is None or not into.tracks:
            self._set(result, tracks, source.node, True)
            return
        for one, other in zip(into.tracks, tracks, strict=False):
            self.atoms.join(one, other)
        self._set(result, into.tracks, self._node("sum", [*self._links(into), *self._links(source)]), True)

    def _embedding(self, args: Any, result: Tensor) -> None:
        value = self._values.get(id(args[0]))
        if value is None:
            return
        column = [track for track in value.tracks if varying(track) == (1,)]
        tracks = [labels_along(track[0], -1, result.shape) for track in column]
        written = distinct(column[0]) if column else None
        self._keep(result, tracks, self._node("product", [], value.names, written=written), True)

    def _norm(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        value = self._values.get(id(args[0]))
        over_units = "batch_norm" not in name
        if "batch" in name:
            learnt, statistics = args[1:3], args[3:5] if "batch_norm" in name else ()
        elif "group" in name:
            learnt, statistics = args[1:3], ()
        else:
            learnt, statistics = args[2:4], ()
        own = [self._values.get(id(t)) if isinstance(t, Tensor) else None for t in (*learnt, *statistics)]
        own += [None] * (4 - len(own))
        if value is None:
            return
        shape = value.tensor.shape
        for parameter in own:
            for track in [] if parameter is None else parameter.tracks:
                labels = track.expand(shape) if over_units and "group" not in name else labels_along(track, 1, shape)
                for mine in value.tracks:
                    if varying(mine) == varying(labels):
                        self.atoms.join(mine, labels)
        names = [() if parameter is None else parameter.names for parameter in own]
        if over_units:
            over = set(range(1, value.tensor.dim())) if "group" in name else {value.tensor.dim() - 1}
            for track in value.tracks:
                if over & set(varying(track)):
                    groups = args[6] if "group" in name else 1
                    self.atoms.group(distinct(track), groups)
                    self._read(value, "mixed", "a norm over several units follows", [track])
        if not value.is_data:  # weights that are normalised before they are used
            every = tuple(dict.fromkeys([*value.names, *(name for own in names for name in own)]))
            self._keep(result, list(value.tracks), self._node("parameter", parameters=every, computed=True), False)
            return
        node = self._node("norm", self._links(value), names[0], shifts=names[1], statistics=(names[2], names[3]))
        self._keep(result, list(value.tracks), node, value.is_data)

    def _attention(self, args: Any, result: Tensor) -> None:
        query, key, value = (self._values.get(id(t)) for t in args[:3])
        known = [v for v in (query, key, value) if v is not None]
        if value is None or args[1].shape[:2] != args[0].shape[:2] or args[2].shape[:2] != args[0].shape[:2]:
            self._lose("attention", known, [result])
            return
        for other in known[:2]:
            self._read(other, "lost", "its outputs are multiplied by other activations")
        tracks = [track.narrow(-2, 0, 1).expand(result.shape) for track in value.tracks if -2 % 4 not in varying(track)]
        self._keep(result, tracks, self._node("gate", self._links(value)), True)

    # ------------------------------------------------------------------ products

    def _product(self, name: str, args: Any, result: Tensor) -> None:
        bias = args[0] if name in ("addmm", "baddbmm", "addmv") else None
        left, right = args[-2:] if bias is None else args[1:3]
        is_vector = name in ("mv", "addmv")
        one, other = self._values.get(id(left)), self._values.get(id(right))
        known = [value for value in (one, other) if value is not None]
        shape = torch.Size([*result.shape, 1]) if is_vector else result.shape
        read, kept = _split(one, -1, False)
        read_right, kept_right = _split(other, -2, is_vector)
        if read is None or read_right is None or len(read) > 1 or len(read_right) > 1:
            self._lose(name, known, [result])
            return
        tracks = [track.narrow(-1, 0, 1).expand(shape) for track in kept]
        tracks += [track.narrow(-2, 0, 1).expand(shape) for track in kept_right]
        if is_vector:
            tracks = [track.squeeze(-1) for track in tracks]
        self._multiply(
            one, other, read, read_right, tracks, kept if one and not one.is_data else kept_right, result, bias
        )

    def _multiply(
        self,
        one: _Value | None,
        other: _Value | None,
        read: list[Tensor],
        read_right: list[Tensor],
        tracks: list[Tensor],
        written: list[Tensor],
        result: Tensor,
        bias: Tensor | None,
    ) -> None:
        if read and read_right:
            self.atoms.join(read[0], read_right[0])
        weights = [value for value in (one, other) if value is not None and not value.is_data]
        data = [value for value in (one, other) if value is not None and value.is_data]
        biases: tuple[str, ...] = ()
        links: list[tuple[Node, Tensor]] = []
        if bias is not None and (value := self._values.get(id(bias))) is not None:
            biases = () if value.is_data else value.names
            for track in value.tracks:
                labels = track.expand(result.shape)
                for mine in tracks:
                    if varying(mine) == varying(labels):
                        self.atoms.join(mine, labels)
            if value.is_data:
                links += self._links(value)
        if len(weights) == 2:
            names = tuple(dict.fromkeys([*weights[0].names, *weights[1].names]))
            self._keep(result, tracks, self._node("parameter", parameters=names, computed=True), False)
            return
        if not weights:  # activations times activations, or times numbers of the run
            for value, own in ((one, read), (other, read_right)):
                if value is not None and own:
                    self._read(value, "lost", "its outputs are multiplied by other activations", own)
            links += [(value.node, distinct(t)) for value in data for t in value.tracks if _survives(t, tracks)]
            self._set(result, tracks, self._node("gate", links), True)
            return
        own = read if one in data else read_right
        theirs = read_right if one in data else read
        links_read = [(data[0].node, distinct(track)) for track in own] if data else []
        if data and own and not theirs and own[0].shape[-1] > 1:
            self._read(data[0], "lost", "its outputs are multiplied by weights whose rows are not known", own)
        atoms = torch.cat([distinct(track) for track in written]) if written else None
        summed = torch.cat([distinct(track) for track in theirs]) if theirs else None
        node = self._node("product", links_read, weights[0].names, shifts=biases, written=atoms, read=summed)
        node.computed = weights[0].node.computed
        if links:
            node = self._node("sum", [(node, atoms if atoms is not None else torch.empty(0)), *links])
        self._set(result, tracks, node, True)

    def _experts(self, args: Any, result: Tensor) -> None:
        """Rows times the matrix of their expert: what stands at the same place of all matrices is one unit."""
        given, weights = self._values.get(id(args[0])), self._values.get(id(args[1]))
        if weights is None or weights.is_data or given is None:
            self._lose("_grouped_mm", [value for value in (given, weights) if value is not None], [result])
            return
        rows = [track.expand(weights.tensor.shape)[0, 0, :] for track in weights.tracks if varying(track) == (2,)]
        columns = [track.expand(weights.tensor.shape)[0, :, 0] for track in weights.tracks if varying(track) == (1,)]
        read = [vector for track in given.tracks if (vector := along(track, 1)) is not None]
        tracks = [labels_along(row, 1, result.shape) for row in rows]
        self._multiply(given, weights, read, columns, tracks, rows, result, None)

    def _convolution(self, args: Any, result: Tensor) -> None:
        given, weight, bias, transposed, groups = args[0], args[1], args[2], args[6], args[8]
        value, kernel = self._values.get(id(given)), self._values.get(id(weight))
        if kernel is None or kernel.is_data:
            self._lose("convolution", [v for v in (value, kernel) if v is not None], [result])
            return
        channels_in, channels_out = (0, 1) if transposed else (1, 0)
        batched = given.dim() == weight.dim()
        axis = 1 if batched else 0
        rows = [along(t, channels_out) for t in kernel.tracks if varying(t) == (channels_out,)]
        columns = [along(t, channels_in) for t in kernel.tracks if varying(t) == (channels_in,)]
        depthwise = groups > 1 and groups == given.shape[axis] == result.shape[axis]
        if transposed and groups > 1:
            self._lose("a transposed convolution in groups", [v for v in (value, kernel) if v], [result])
            return
        links = []
        for track in value.tracks if value is not None and given.shape[axis] > 1 else ():
            assert value is not None
            vector = along(track, axis)
            if vector is None:
                self._read(value, "lost", "a convolution over other axes than its channels reads its outputs", [track])
                continue
            links.append((value.node, distinct(vector)))
            if depthwise and rows:
                self.atoms.join(vector, rows[0])  # type: ignore[arg-type]
            elif groups > 1:
                self._read(value, "lost", f"a convolution in {groups} groups reads its outputs", [track])
            elif columns:
                self.atoms.join(vector, columns[0])  # type: ignore[arg-type]
        names: tuple[str, ...] = ()
        if bias is not None and (shift := self._values.get(id(bias))) is not None:
            names = shift.names
            for track in shift.tracks if rows else ():
                self.atoms.join(track, rows[0])  # type: ignore[arg-type]
        if groups > 1 and not depthwise and rows:
            self.atoms.group(rows[0], groups)  # type: ignore[arg-type]
        tracks = [labels_along(rows[0], axis, result.shape)] if rows else []  # type: ignore[arg-type]
        written = distinct(rows[0]) if rows else None  # type: ignore[arg-type]
        summed = written if depthwise else distinct(columns[0]) if columns else None  # type: ignore[arg-type]
        node = self._node("product", links, kernel.names, shifts=names, written=written, read=summed)
        node.computed = kernel.node.computed
        self._keep(result, tracks, node, True)


def _of_nearest_product(before: _Before) -> Tensor | None:
    """The units that an activation is given: where it carries others, such as positions, those of the last layer."""
    if len(before.tracks) < 2 or before.node is None:
        return before.tracks[0] if before.tracks else None
    written, pending, seen = [], [before.node], {before.node}
    while pending:
        node = pending.pop()
        if node.kind == "product":
            written += [] if node.written is None else [node.written]
            continue
        new = [other for other, _ in node.inputs if other not in seen]
        seen.update(new)
        pending += new
    atoms = torch.cat(written) if written else torch.empty(0, dtype=torch.long)
    found = [track for track in before.tracks if torch.isin(distinct(track), atoms).any()]
    return found[0] if len(found) == 1 else None


def _split(value: _Value | None, axis: int, is_vector: bool) -> tuple[list[Tensor] | None, list[Tensor]]:
    """Labels along the axis that a product sums over, and those along others; None where they cannot be told apart."""
    read: list[Tensor] = []
    kept: list[Tensor] = []
    for track in [] if value is None else value.tracks:
        if is_vector:
            track = track.unsqueeze(-1)
        rest = -2 if axis == -1 else -1
        axes = {k - track.dim() for k in varying(track)}
        if axis in axes and rest in axes:
            return None, []
        (read if axis in axes else kept).append(track)
    return [track.select(-1 if axis == -2 else -2, 0) for track in read], kept


def _survives(track: Tensor, tracks: Sequence[Tensor]) -> bool:
    atoms = distinct(track)
    return any(torch.isin(atoms, distinct(other)).any() for other in tracks)


def _is_opaque(call: ActivationCall) -> bool:
    """Whether an activation computes by kernels that no mode sees, number by number."""
    return isinstance(call.module, PerNeuron)


def tensors_in(value: Any, depth: int = 4) -> Iterator[Tensor]:
    """The tensors in what a model takes or gives: containers, and objects that keep some."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(item, depth - 1)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, nn.Module | type | Callable):
        yield from tensors_in(vars(value), depth - 1)
