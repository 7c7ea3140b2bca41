"""A model as its owners, the modules with a forward of their own, and the places where these call activations."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from torch import fx, nn

from adalin.nn._convert._activations import Nonlinearity, of_module, of_node
from adalin.nn._convert._trace import UntraceableError, Variant, parameters_of, trace

TRANSFORMER_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
"""Torch's own owners of an activation: `activation`, a function or a module, behind `linear1`."""


@dataclass(eq=False)
class Owner:
    """A module with a forward of its own."""

    path: str
    module: nn.Module
    variants: list[Variant] = field(default_factory=list)
    failure: str = ""
    """Reason why there are no variants."""

    def __str__(self) -> str:
        name = type(self.module).__name__
        return f"{self.path!r} ({name})" if self.path else f"the model ({name})"

    def called(self, node: fx.Node) -> nn.Module:
        assert node.op == "call_module"
        return self.module.get_submodule(str(node.target))


@dataclass(eq=False)
class Call:
    """One place in an owner's forward that calls an activation."""

    owner: Owner
    attribute: str
    """Path of the activation, or of its AdaLin to be, inside the owner."""
    activation: Nonlinearity
    original: nn.Module | None
    """The module that is called; None for a function or method."""
    nodes: tuple[fx.Node, ...] = ()
    """The call in each variant of the owner; empty where the owner cannot be traced."""
    repeated: bool = False
    """The module is called in other places too."""

    @property
    def name(self) -> str:
        return f"{self.owner.path}.{self.attribute}".lstrip(".")


class Network:
    """The owners of a model, traced; their calls of activations; and who calls whom."""

    def __init__(self, model: nn.Module) -> None:
        _split_shared_activations(model)
        self.model = model
        self.owners = [_owner(path, module) for path, module in model.named_modules() if _is_owner(module)]
        self.callers: dict[nn.Module, list[tuple[Owner, fx.Node]]] = {}
        for owner in self.owners:
            for variant in owner.variants:
                for node in variant.graph.find_nodes(op="call_module"):
                    self.callers.setdefault(owner.called(node), []).append((owner, node))
        self.calls = self._without_phantoms([call for owner in self.owners for call in self._calls(owner)])
        times = Counter(call.original for call in self.calls)
        for call in self.calls:
            call.repeated = call.original is not None and times[call.original] > 1
        _name_apart(self.calls)

    def _without_phantoms(self, calls: list[Call]) -> list[Call]:
        """Leaves out calls by the forward of a container that is never called: others call the modules in it."""
        live = [call.owner.module is self.model or call.owner.module in self.callers for call in calls]
        called = {call.original for call, is_live in zip(calls, live, strict=True) if is_live} - {None}
        return [call for call, is_live in zip(calls, live, strict=True) if is_live or call.original not in called]

    def _calls(self, owner: Owner) -> list[Call]:
        if type(owner.module) in TRANSFORMER_LAYERS:
            return _transformer_calls(owner)
        if not owner.variants:
            return self._registered(owner)
        sequences = [_activations(owner.module, variant.graph) for variant in owner.variants]
        calls = []
        for (node, activation, module), *others in zip(*sequences, strict=True):
            attribute = str(node.target) if module is not None else activation.name
            calls.append(Call(owner, attribute, activation, module, (node, *(other[0] for other in others))))
        return calls

    def _registered(self, owner: Owner) -> list[Call]:
        """The activations below an owner that cannot be traced, each taken for one call."""
        return [
            Call(owner, path, activation, module)
            for path, module in owner.module.named_modules()
            if module not in self.callers and (activation := of_module(module)) is not None
            if self._nearest_owner(owner, path) is owner.module
        ]

    def _nearest_owner(self, owner: Owner, path: str) -> nn.Module:
        owners = {other.module for other in self.owners}
        while path:
            path = path.rpartition(".")[0]
            if (module := owner.module.get_submodule(path)) in owners:
                return module
        return owner.module


def _split_shared_activations(model: nn.Module) -> None:
    """An activation object that stands in several places becomes one object per place."""
    seen: set[nn.Module] = set()
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is not None and child in seen and of_module(child) is not None:
                parent._modules[name] = child = deepcopy(child)  # with hooks of its own
            if child is not None:
                seen.add(child)


def _is_owner(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential) or type(module) in TRANSFORMER_LAYERS:
        return True
    opaque = type(module).__module__.startswith(("torch.nn.", "adalin.")) or isinstance(module, torch.jit.ScriptModule)
    return not opaque and of_module(module) is None


def _owner(path: str, module: nn.Module) -> Owner:
    if type(module) in TRANSFORMER_LAYERS:
        return Owner(path, module, failure="it is torch's own")
    if isinstance(module, fx.GraphModule):
        return Owner(path, module, failure="it is a GraphModule, whose copies go back to their own graph")
    try:
        variants = trace(module)
    except UntraceableError as error:
        return Owner(path, module, failure=str(error))
    sequences = {
        variant: [(node.all_input_nodes[0].target, *found) for node, *found in _activations(module, variant.graph)]
        for variant in variants
    }
    others = [variant for variant in variants if sequences[variant] != sequences[variants[0]]]
    required = {parameter.name for parameter in parameters_of(module) if parameter.default is parameter.empty}
    if any(required.isdisjoint(variant.fixed) for variant in others):
        return Owner(path, module, failure="it calls other activations in eval mode or with other optional arguments")
    # None for a required argument is perhaps never given: a rewritten forward refuses it when it meets it
    return Owner(path, module, [variant for variant in variants if variant not in others])


def _activations(owner: nn.Module, graph: fx.Graph) -> list[tuple[fx.Node, Nonlinearity, nn.Module | None]]:
    found = []
    for node in graph.nodes:
        module = owner.get_submodule(str(node.target)) if node.op == "call_module" else None
        activation = of_module(module) if module is not None else of_node(node)
        if activation is not None and node.all_input_nodes:  # not on None
            found.append((node, activation, module))
    return found


def _transformer_calls(owner: Owner) -> list[Call]:
    function = owner.module.activation
    if isinstance(function, nn.Module):
        activation, module = of_module(function), function
    else:
        graph = fx.Graph()
        activation, module = of_node(graph.call_function(function, (graph.placeholder("x"),))), None  # type: ignore[arg-type]
    return [Call(owner, "activation", activation, module)] if activation is not None else []


def _name_apart(calls: list[Call]) -> None:
    """Give function calls, and all but the first call of a module, names that are free in their owner."""
    taken: dict[Owner, set[str]] = {}
    named: set[nn.Module] = set()
    for call in calls:
        if not call.nodes or (call.original is not None and call.original not in named):
            named.add(call.original)  # type: ignore[arg-type]
            continue
        names = taken.setdefault(call.owner, set())
        stem = call.attribute.rpartition(".")[2]
        stem = stem if stem.isidentifier() else call.activation.name
        candidates = (f"{stem}_{k}" if k else stem for k in range(10_000))
        call.attribute = next(n for n in candidates if n not in names and not hasattr(call.owner.module, n))
        names.add(call.attribute)
