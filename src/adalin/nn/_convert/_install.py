"""A new forward for an owner whose code calls functions, or one activation in several places."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import fx, nn

from adalin.nn._convert._inplace import later_users
from adalin.nn._convert._network import Call, Owner
from adalin.nn._convert._trace import Variant, parameters_of

Forward = Callable[..., Any]


def redirect(call: Call) -> None:
    """In the owner's graphs, call the module at `call.attribute` instead."""
    for node in call.nodes:
        value = node.all_input_nodes[0]
        later = later_users(value, node) if call.activation.inplace else []
        with node.graph.inserting_before(node):
            new = node.graph.call_module(call.attribute, (value,))
        value.replace_all_uses_with(new, delete_user_cb=lambda user, later=later: user in later)  # type: ignore[misc]
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)


def install(owner: Owner) -> None:
    """Give the owner the forward of its edited graphs, in a subclass of its class, as `torch.nn.utils.parametrize`."""
    cls = type(owner.module)
    body = {"forward": _forward(owner), "__module__": cls.__module__, "__doc__": cls.__doc__}
    owner.module.__class__ = type(f"Converted{cls.__name__}", (cls,), body)


def _forward(owner: Owner) -> Forward:
    optional = _optional(owner.module, owner.variants)
    bodies = {_key(variant, optional): _compiled(owner.module, variant.graph) for variant in owner.variants}
    if not optional and len({body.__code__ for body in bodies.values()}) == 1:
        return next(iter(bodies.values()))
    names = [parameter.name for parameter in parameters_of(owner.module)]
    refusal = (
        f"the converted forward of {type(owner.module).__name__} was not made for these optional arguments: leave the "
        "module out with skip= in convert(), or use AdaLin layers in its code"
    )

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        body = bodies.get((self.training, tuple(_form(given.get(n, d), d) for n, d in optional)))
        if body is None:
            raise TypeError(refusal)
        return body(self, *args, **kwargs)

    forward.__signature__ = inspect.signature(type(owner.module).forward)  # type: ignore[attr-defined]
    return forward


def _compiled(module: nn.Module, graph: fx.Graph) -> Forward:
    return type(fx.GraphModule(module, graph)).forward


def _optional(module: nn.Module, variants: list[Variant]) -> list[tuple[str, Any]]:
    """The arguments that some variant was traced with as a constant, and their defaults."""
    fixed = {name for variant in variants for name in variant.fixed}
    return [(p.name, p.default) for p in parameters_of(module) if p.name in fixed]


def _key(variant: Variant, optional: list[tuple[str, Any]]) -> tuple[bool, tuple[Any, ...]]:
    return variant.training, tuple(_form(variant.fixed[n], d) if n in variant.fixed else "given" for n, d in optional)


def _form(value: Any, default: Any) -> Any:
    """What an optional argument's value means for the choice of a graph: left out or given, or the constant itself."""
    constant = value is None if default is None else isinstance(value, bool | int | float | str)
    return value if constant else "given"
