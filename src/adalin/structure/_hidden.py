"""Whether an activation is a hidden one or gives the model's output: do weights come after it?"""

import ast
import operator

import torch
from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from adalin.structure._activations import BOUNDED
from adalin.structure._inplace import later_users
from adalin.structure._owners import Owner, Site, Structure, is_transformer_layer

POWERS = {operator.pow, torch.pow, torch.square, "pow", "square"}
PRODUCTS = {operator.mul, operator.truediv, torch.mul, torch.div, "mul", "div"}
SUMS = {operator.add, operator.sub, torch.add, torch.sub, "add", "sub"}
ARITHMETIC = POWERS | PRODUCTS | SUMS | {operator.neg, torch.neg, "neg"}

OUTPUT = "gives the model's output"
"""Why an activation that gives what the model returns is not hidden."""
MAYBE = "may limit the model's output: nobody could see what reads it"
"""Why a bounded activation is not hidden whose readers are unknown."""
BOTH = "limits what the model returns, and is used as well"
UNTAKEN = "in code that forward does not reach with the present attributes"
UNSEEN = "in a method that forward does not call and that could not be traced"
"""Why an activation is not hidden whose call nothing is known of."""


def why_not_hidden(structure: Structure, site: Site) -> str | None:
    """Why an activation is no hidden one; None if it is."""
    if is_transformer_layer(site.owner.module):
        return None
    bounded = site.activation.name in BOUNDED
    if site.nodes:
        inplace = site.activation.inplace
        starts = [[n, *(later_users(n.all_input_nodes[0], n) if inplace else [])] for n in site.nodes]
        if not any(_weights_follow(structure, site.owner, nodes, set(), bounded) for nodes in starts):
            return OUTPUT if not bounded or _is_seen_through(structure, site.owner, set()) else MAYBE
        if bounded and all(_is_returned(structure, site.owner, node, set()) for node in site.nodes):
            return BOTH
        return None
    if site.path:
        if any(variant.method == "forward" for variant in site.owner.variants):
            return UNTAKEN
        function = site.owner.source.functions[site.path[-1][0]].name if site.owner.source else ""
        if _weights_read(site) or (function == "forward" and not bounded and _any_weights(structure.model)):
            return None
        return MAYBE if function == "forward" else UNSEEN
    if bounded:
        return None if _is_inside_a_chain(site) else MAYBE
    hidden = _weights_registered_after(site.owner, site.attribute) or _owner_is_hidden(
        structure, site.owner, set(), False
    )
    return None if hidden else OUTPUT


def is_formula(site: Site) -> bool:
    """Whether a site is one part of an activation that the code spells out, such as tanh in a hand-written GELU."""
    module = site.owner.module
    if site.original is None and site.nodes and not module._modules and not module._parameters:
        nodes = list(site.nodes[0].graph.nodes)
        if len(nodes) > 3 and {node.target for node in nodes if node.op.startswith("call_")} <= ARITHMETIC | {
            site.nodes[0].target
        }:
            return True
    return any(_is_part(node) for node in site.nodes)


def _is_part(node: fx.Node) -> bool:
    """Whether a result is squared, or multiplied with what it was computed from."""
    before = set(_made_from(node.all_input_nodes))
    after = [node]
    for one in after:
        for user in one.users:
            others = [other for other in user.all_input_nodes if other not in after]
            if user.target in POWERS or (user.target in PRODUCTS and before & set(_made_from(others))):
                return True
            if user.target in PRODUCTS and len([argument for argument in user.args if argument is one]) == 2:
                return True
            if user.target in PRODUCTS | SUMS and not others and user not in after:
                after.append(user)
    return False


def _made_from(nodes: list[fx.Node]) -> list[fx.Node]:
    """Nodes and what they are computed from by arithmetic alone."""
    found = list(nodes)
    for one in found:
        if one.target in ARITHMETIC:
            found += [other for other in one.all_input_nodes if other not in found]
    return found


def _weights_follow(structure: Structure, owner: Owner, starts: list[fx.Node], seen: set[Owner], bounded: bool) -> bool:
    pending, visited = list(starts), set(starts)
    while pending:
        new = set(pending.pop().users) - visited
        visited |= new
        pending += new
    if any(_has_weights(owner, node) for node in visited - set(starts[:1])):
        return True
    return any(node.op == "output" for node in visited) and _owner_is_hidden(structure, owner, seen, bounded)


def _owner_is_hidden(structure: Structure, owner: Owner, seen: set[Owner], bounded: bool) -> bool:
    if owner in seen:
        return False
    seen = seen | {owner}
    if callers := structure.callers.get(owner.module):
        return any(_weights_follow(structure, caller, [node], seen, bounded) for caller, node in callers)
    if bounded:
        return False
    for other in structure.owners:  # a caller that cannot be traced: weights registered later count as coming later
        if not other.variants and other is not owner and _is_inside(owner.path, other.path):
            inside = owner.path.removeprefix(other.path).lstrip(".")
            if _weights_registered_after(other, inside) or _owner_is_hidden(structure, other, seen, bounded):
                return True
    return False


def _is_seen_through(structure: Structure, owner: Owner, seen: set[Owner]) -> bool:
    """Whether everybody who calls an owner is known."""
    if owner.module is structure.model or owner in seen:
        return True
    callers = structure.callers.get(owner.module, [])
    return bool(callers) and all(_is_seen_through(structure, caller, seen | {owner}) for caller, _ in callers)


def _is_returned(structure: Structure, owner: Owner, node: fx.Node, seen: set[fx.Node]) -> bool:
    """Whether the model itself returns a value as it is."""
    if node in seen or not any(user.op == "output" for user in node.users):
        return False
    if owner.module is structure.model:
        return True
    calls = structure.callers.get(owner.module, [])
    return any(_is_returned(structure, caller, call, seen | {node}) for caller, call in calls)


def _is_inside(path: str, other: str) -> bool:
    return not other or path.startswith(other + ".")


def _is_inside_a_chain(site: Site) -> bool:
    """Whether a module stands in a list of layers with weights after it, in the same list."""
    parent, _, name = site.attribute.rpartition(".")
    home = site.owner.module.get_submodule(parent)
    if not isinstance(home, nn.ModuleList | nn.Sequential) or not name.isdigit():
        return False
    return any(_is_weight(p) for child in list(home)[int(name) + 1 :] for p in child.parameters())


def _weights_read(site: Site) -> bool:
    """Whether the code hands what a call returns to a module with weights, as far as its names tell."""
    source = site.owner.source
    assert source is not None
    number, place = site.path[-1]
    parsed = source.functions[number].parsed
    call = parsed.calls[place]
    names: set[str] = set()
    for node in ast.walk(parsed.tree):
        if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
            names |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    for other in parsed.calls:
        if other is call:
            continue
        inner = [n for argument in other.args for n in ast.walk(argument)]
        later = (other.lineno, other.col_offset) > (call.lineno, call.col_offset)
        reads = any(n is call for n in inner) or (
            later and any(isinstance(n, ast.Name) and n.id in names for n in inner)
        )
        target = source.value(other.func, number)
        if reads and isinstance(target, nn.Module) and any(_is_weight(p) for p in target.parameters()):
            return True
    return False


def _any_weights(model: nn.Module) -> bool:
    return any(_is_weight(p) for p in model.parameters())


def _weights_registered_after(owner: Owner, attribute: str) -> bool:
    names = [name for name, _ in owner.module.named_modules(remove_duplicate=False)]
    last = max((i for i, n in enumerate(names) if n == attribute or n.startswith(attribute + ".")), default=len(names))
    later = (owner.module.get_submodule(name) for name in names[last + 1 :])
    return any(_is_weight(p) for module in later for p in module.parameters(recurse=False))


def _has_weights(owner: Owner, node: fx.Node) -> bool:
    if node.op == "call_module":
        return any(_is_weight(p) for p in owner.called(node).parameters())
    return any(_is_made_of_weights(argument) for argument in node.all_input_nodes)


def _is_made_of_weights(node: fx.Node) -> bool:
    """A weight, or what is computed from weights alone, such as `self.weight.t()`."""
    if node.op == "get_attr":
        return bool(node.meta.get("weight"))
    return bool(node.all_input_nodes) and all(_is_made_of_weights(argument) for argument in node.all_input_nodes)


def _is_weight(parameter: Tensor) -> bool:
    return is_lazy(parameter) or parameter.dim() > 1
