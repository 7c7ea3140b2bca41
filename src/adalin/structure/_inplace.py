"""Activations that work in place: who else sees the tensor that they overwrite?

AdaLin does not overwrite its input, so whoever reads that input later must be given the result instead. Inside one
graph this can be done; where the tensor may be known under another name or to a caller, the activation is left alone.
"""

import itertools

import torch
from torch import fx, nn
from torch.nn.modules.dropout import _DropoutNd

from adalin.structure._activations import activation_of, activation_of_node
from adalin.structure._owners import TRANSFORMER_LAYERS, Owner, Site, Structure

MAY_RETURN_THEIR_INPUT = (nn.Identity, nn.Flatten, nn.Unflatten, _DropoutNd, torch.jit.ScriptModule)
RETURN_TUPLES = (nn.RNNBase, nn.LSTMCell, nn.MultiheadAttention)  # of tensors that share no memory
VIEWS = {
    *("__getitem__", "as_strided", "broadcast_to", "chunk", "contiguous", "cpu", "cuda", "detach", "diagonal"),
    *("double", "expand", "expand_as", "flatten", "float", "getitem", "half", "movedim", "narrow", "permute", "ravel"),
    *("reshape", "select", "split", "squeeze", "swapaxes", "t", "tensor_split", "to", "transpose", "type", "type_as"),
    *("unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"),
    *("iadd", "imul", "ipow", "isub", "itruediv"),
}
"""Functions and methods whose result may be their first argument, or a view of it."""
VIEW_ATTRIBUTES = {"T", "mT", "H", "mH", "data", "real", "imag"}


def later_users(value: fx.Node, node: fx.Node) -> list[fx.Node]:
    """Who uses a value after a node of the same graph."""
    order = {other: i for i, other in enumerate(node.graph.nodes)}
    return [user for user in value.users if order[user] > order[node]]


def is_aliased(site: Site) -> bool:
    """Whether the input of an in-place activation is used again in the same graph, or may be."""
    if site.activation.inplace and site.path and not site.nodes:
        return True
    return site.activation.inplace and any(later_users(node.all_input_nodes[0], node) for node in site.nodes)


def escapes(structure: Structure, site: Site) -> bool:
    """Whether an in-place activation may overwrite a tensor that is read under another name, or by a caller."""
    if not site.activation.inplace:
        return False
    if not site.nodes:
        return not site.path  # what its own code calls can write back
    memory = _Memory(structure)
    return any(memory.is_seen_elsewhere(site.owner, node.all_input_nodes[0], node, set()) for node in site.nodes)


class _Memory:
    """Which values may be the same tensor, or views of it."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.owners = {owner.module: owner for owner in structure.owners}

    def is_seen_elsewhere(self, owner: Owner, value: fx.Node, node: fx.Node, seen: set[fx.Node]) -> bool:
        """Whether the tensor that a node overwrites is read later, other than as `value` in the same graph."""
        aliases = self._aliases(owner, value, node)
        if any(alias.op == "get_attr" or (alias is not value and later_users(alias, node)) for alias in aliases):
            return True
        placeholders = [alias for alias in aliases if alias.op == "placeholder" and alias not in seen]
        if not placeholders or owner.module is self.structure.model:
            return False
        if any(placeholder.meta.get("method", "forward") != "forward" for placeholder in placeholders):
            return True
        callers = self.structure.callers.get(owner.module, [])
        return not callers or any(
            later_users(argument, call) or self.is_seen_elsewhere(caller, argument, call, seen | {placeholder})
            for placeholder in placeholders
            for caller, call in callers
            for argument in _arguments(call, placeholder)
        )

    def _aliases(self, owner: Owner, value: fx.Node, node: fx.Node | None = None) -> list[fx.Node]:
        """The values before a node, or in the whole graph, that may share memory with a value; itself comes first."""
        before = set(itertools.takewhile(lambda other: other is not node, value.graph.nodes))
        found = [value]
        for one in found:
            users = [user for user in one.users if user in before and one in self._shared(owner, user)]
            found += [other for other in (*self._shared(owner, one), *users) if other not in found]
        return found

    def _shared(self, owner: Owner, node: fx.Node) -> list[fx.Node]:
        """The arguments that a node may return, or return a view of."""
        if node.op == "call_module":
            return node.all_input_nodes if self._may_return_its_input(owner.called(node)) else []
        if node.op not in ("call_function", "call_method"):
            return []
        first = node.all_input_nodes[:1]
        if first and first[0].op == "call_module" and isinstance(owner.called(first[0]), RETURN_TUPLES):
            return []
        name = str(node.target if node.op == "call_method" else getattr(node.target, "__name__", ""))
        activation = activation_of_node(node)
        works_in_place = (name.endswith("_") and not name.endswith("__")) or (activation and activation.inplace)
        is_view = name in VIEWS or (node.target is getattr and node.args[1] in VIEW_ATTRIBUTES)
        return first if works_in_place or is_view else []

    def _may_return_its_input(self, module: nn.Module) -> bool:
        owner = self.owners.get(module)
        if owner is None or isinstance(module, TRANSFORMER_LAYERS):  # torch's or ours
            activation = activation_of(module)
            return isinstance(module, MAY_RETURN_THEIR_INPUT) or (activation is not None and activation.inplace)
        outputs = [output for variant in owner.variants for output in variant.graph.find_nodes(op="output")]
        returned = [value for output in outputs for value in output.all_input_nodes]
        return not owner.variants or any(
            alias.op == "placeholder" for value in returned for alias in self._aliases(owner, value)
        )


def _arguments(call: fx.Node, placeholder: fx.Node) -> list[fx.Node]:
    """What a call passes for one of the arguments; several values if it is a tuple."""
    position = [node.target for node in placeholder.graph.find_nodes(op="placeholder")].index(placeholder.target)
    value = call.args[position] if position < len(call.args) else call.kwargs.get(str(placeholder.target))
    found: list[fx.Node] = []
    fx.map_arg(value, found.append)
    return found
