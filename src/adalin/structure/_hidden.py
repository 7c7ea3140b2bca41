"""Whether an activation is a hidden one or gives the model's output: do weights come after it?"""

from torch import Tensor, fx
from torch.nn.parameter import is_lazy

from adalin.structure._inplace import later_users
from adalin.structure._owners import TRANSFORMER_LAYERS, Owner, Site, Structure


def is_hidden(structure: Structure, site: Site) -> bool:
    """Whether weights come after the site on the way to the model's output."""
    if type(site.owner.module) in TRANSFORMER_LAYERS:
        return True
    if site.nodes:
        inplace = site.activation.inplace
        starts = ([n, *(later_users(n.all_input_nodes[0], n) if inplace else [])] for n in site.nodes)
        return any(_weights_follow(structure, site.owner, nodes, set()) for nodes in starts)
    return _weights_registered_after(site.owner, site.attribute) or _owner_is_hidden(structure, site.owner, set())


def _weights_follow(structure: Structure, owner: Owner, starts: list[fx.Node], seen: set[Owner]) -> bool:
    pending, visited = list(starts), set(starts)
    while pending:
        new = set(pending.pop().users) - visited
        visited |= new
        pending += new
    if any(_has_weights(owner, node) for node in visited - set(starts[:1])):
        return True
    return any(node.op == "output" for node in visited) and _owner_is_hidden(structure, owner, seen)


def _owner_is_hidden(structure: Structure, owner: Owner, seen: set[Owner]) -> bool:
    if owner in seen:
        return False
    seen = seen | {owner}
    if callers := structure.callers.get(owner.module):
        return any(_weights_follow(structure, caller, [node], seen) for caller, node in callers)
    for other in structure.owners:  # a caller that cannot be traced: weights registered later count as coming later
        if not other.variants and other is not owner and _is_inside(owner.path, other.path):
            inside = owner.path.removeprefix(other.path).lstrip(".")
            if _weights_registered_after(other, inside) or _owner_is_hidden(structure, other, seen):
                return True
    return False


def _is_inside(path: str, other: str) -> bool:
    return not other or path.startswith(other + ".")


def _weights_registered_after(owner: Owner, attribute: str) -> bool:
    names = [name for name, _ in owner.module.named_modules()]
    last = max(i for i, name in enumerate(names) if name == attribute or name.startswith(attribute + "."))
    later = (owner.module.get_submodule(name) for name in names[last + 1 :])
    return any(_is_weight(p) for module in later for p in module.parameters(recurse=False))


def _has_weights(owner: Owner, node: fx.Node) -> bool:
    if node.op == "call_module":
        return any(_is_weight(p) for p in owner.called(node).parameters())
    return any(_is_made_of_weights(owner, argument) for argument in node.all_input_nodes)


def _is_made_of_weights(owner: Owner, node: fx.Node) -> bool:
    """A weight, or what is computed from weights alone, such as `self.weight.t()`."""
    if node.op == "get_attr":
        return any(name == node.target and _is_weight(p) for name, p in owner.module.named_parameters())
    return bool(node.all_input_nodes) and all(_is_made_of_weights(owner, argument) for argument in node.all_input_nodes)


def _is_weight(parameter: Tensor) -> bool:
    return is_lazy(parameter) or parameter.dim() > 1
