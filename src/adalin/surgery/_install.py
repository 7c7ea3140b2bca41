"""A new forward for an owner whose code calls functions, or one activation in several places."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import fx, nn

from adalin.structure import Owner, Site, Variant, later_users, parameters_of

Forward = Callable[..., Any]


def redirect(site: Site) -> None:
    """In the owner's graphs, call the module at `site.attribute` instead."""
    for node in site.nodes:
        value = node.all_input_nodes[0]
        later = later_users(value, node) if site.activation.inplace else []
        with node.graph.inserting_before(node):
            new = node.graph.call_module(site.attribute, (value,))
        value.replace_all_uses_with(new, delete_user_cb=lambda user, later=later: user in later)  # type: ignore[misc]
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)


def install(owner: Owner) -> None:
    """Give the owner the forward of its edited graphs, in a subclass of its class, as `torch.nn.utils.parametrize`."""
    cls = type(owner.module)
    body = {"forward": _forward(owner), "__module__": cls.__module__, "__doc__": cls.__doc__}
    owner.module.__class__ = type(f"Converted{cls.__name__}", (cls,), body)


def _forward(owner: Owner) -> Forward:
    parameters = parameters_of(owner.module)
    names, defaults = [p.name for p in parameters], {p.name: p.default for p in parameters}
    constants = {name: _constants(name, owner.variants) for name in names}
    bodies = {_key(variant, constants): _compiled(owner.module, variant.graph) for variant in owner.variants}
    if len(names) == 1 and not any(constants.values()) and len({body.__code__ for body in bodies.values()}) == 1:
        return next(iter(bodies.values()))
    refusal = (
        f"the converted forward of {type(owner.module).__name__} was not made for these optional arguments, or for "
        "None: leave the module out with skip= in convert(), or use AdaLin layers in its code"
    )

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        body = bodies.get((self.training, tuple(_form(given[name], constants[name]) for name in names)))
        if body is None:
            raise TypeError(refusal)
        return body(self, *args, **kwargs)

    forward.__module__ = type(owner.module).__module__  # not this file's, whose functions are no helpers of the owner
    forward.__signature__ = inspect.signature(type(owner.module).forward)  # type: ignore[attr-defined]
    return forward


def _compiled(module: nn.Module, graph: fx.Graph) -> Forward:
    return type(fx.GraphModule(module, graph)).forward


def _constants(name: str, variants: list[Variant]) -> list[Any]:
    """The constants that an argument was traced with."""
    found: list[Any] = []
    for variant in variants:
        if name in variant.fixed and not any(variant.fixed[name] is constant for constant in found):
            found.append(variant.fixed[name])
    return found


def _key(variant: Variant, constants: dict[str, list[Any]]) -> tuple[bool, tuple[int | None, ...]]:
    stand_in = inspect.Parameter.empty
    return variant.training, tuple(_form(variant.fixed.get(n, stand_in), known) for n, known in constants.items())


def _form(value: Any, constants: list[Any]) -> int | None:
    """What an argument means for the choice of a graph: the place of the constant it equals; otherwise -1, the place
    of stand-ins; and for a None that is no such constant a place without a graph.
    """
    for place, constant in enumerate(constants):
        comparable = isinstance(value, (int, float, type(constant)))  # a tensor is not
        if value is constant or (comparable and value == constant):
            return place
    return None if value is None else -1
