"""Activations that work in place: who else sees the tensor that they overwrite?

AdaLin does not overwrite its input, so whoever reads that input later must be given the result instead. Inside one
graph this can be done; where the tensor may be known under another name or to a caller, the activation is left alone.
"""

from torch import fx, nn

from adalin.nn._convert._network import Call, Network, Owner

MAY_RETURN_THEIR_INPUT = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
VIEWS = {
    *("__getitem__", "chunk", "contiguous", "detach", "expand", "flatten", "float", "getitem", "movedim", "narrow"),
    *("permute", "reshape", "select", "split", "squeeze", "t", "to", "transpose", "unflatten", "unsqueeze", "view"),
    *("dropout",),
}


def later_users(value: fx.Node, node: fx.Node) -> list[fx.Node]:
    """Who uses a value after a node of the same graph."""
    order = {other: i for i, other in enumerate(node.graph.nodes)}
    return [user for user in value.users if order[user] > order[node]]


def is_aliased(call: Call) -> bool:
    """Whether the input of an in-place activation is used again in the same graph."""
    return call.activation.inplace and any(later_users(node.all_input_nodes[0], node) for node in call.nodes)


def escapes(network: Network, call: Call) -> bool:
    """Whether an in-place activation may overwrite a tensor that is read under another name, or by a caller."""
    if not call.activation.inplace:
        return False
    if not call.nodes:
        return True
    return any(_seen_elsewhere(network, call.owner, node.all_input_nodes[0], node, set()) for node in call.nodes)


def _seen_elsewhere(network: Network, owner: Owner, value: fx.Node, node: fx.Node, seen: set[fx.Node]) -> bool:
    while _may_return_its_input(owner, value):
        value = value.all_input_nodes[0]
        if later_users(value, node):
            return True
    if value.op != "placeholder" or value in seen or owner.module is network.model:
        return False
    callers = network.callers.get(owner.module, [])
    return not callers or any(
        _argument_seen_elsewhere(network, caller, value, call, seen | {value}) for caller, call in callers
    )


def _argument_seen_elsewhere(
    network: Network, caller: Owner, placeholder: fx.Node, call: fx.Node, seen: set[fx.Node]
) -> bool:
    position = [node.target for node in placeholder.graph.find_nodes(op="placeholder")].index(placeholder.target)
    value = call.args[position] if position < len(call.args) else call.kwargs.get(str(placeholder.target))
    if not isinstance(value, fx.Node):
        return False
    return bool(later_users(value, call)) or _seen_elsewhere(network, caller, value, call, seen)


def _may_return_its_input(owner: Owner, node: fx.Node) -> bool:
    if not node.all_input_nodes:
        return False
    if node.op == "call_module":
        return isinstance(owner.called(node), MAY_RETURN_THEIR_INPUT)
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return node.op in ("call_method", "call_function") and str(name) in VIEWS
