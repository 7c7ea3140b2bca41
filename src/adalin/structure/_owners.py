"""A model as its owners, the modules with a forward of their own, and the places where these call activations."""

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import fx, nn

from adalin.structure._activations import Nonlinearity, activation_of, activation_of_node
from adalin.structure._trace import UntraceableError, Variant, parameters_of, trace

TRANSFORMER_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
"""Torch's own owners of an activation: `activation`, a function or a module, behind `linear1`."""


@dataclass(eq=False)
class Owner:
    """A module with a forward of its own."""

    path: str
    """Path of the module in the model."""
    module: nn.Module
    """Module whose forward it is."""
    variants: list[Variant] = field(default_factory=list)
    """Graphs of the forward, one for each mode and form of its arguments."""
    failure: str = ""
    """Reason why there are no variants."""

    def __str__(self) -> str:
        name = type(self.module).__name__
        return f"{self.path!r} ({name})" if self.path else f"the model ({name})"

    def called(self, node: fx.Node) -> nn.Module:
        """The module that a node of its graphs calls."""
        assert node.op == "call_module"
        return self.module.get_submodule(str(node.target))


@dataclass(eq=False)
class Site:
    """One place in an owner's forward that calls an activation."""

    owner: Owner
    """Owner whose forward it is in."""
    attribute: str
    """Path of the activation, or of its AdaLin to be, inside the owner."""
    activation: Nonlinearity
    """Activation that is called."""
    original: nn.Module | None
    """Module that is called; None for a function or method."""
    nodes: tuple[fx.Node, ...] = ()
    """Call in each variant of the owner; empty where the owner cannot be traced."""
    repeated: bool = False
    """Whether the module is called in other places too."""

    @property
    def name(self) -> str:
        """Path of the site in the model."""
        return f"{self.owner.path}.{self.attribute}".lstrip(".")


class Structure:
    """The owners of a model, traced, the sites of their activations, and who calls whom.

    The model stays as it is. An activation object that stands in several places is one object: `convert` splits it
    first.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.owners = [_owner(path, module) for path, module in model.named_modules() if _is_owner(module)]
        self.callers: dict[nn.Module, list[tuple[Owner, fx.Node]]] = {}
        for owner in self.owners:
            for variant in owner.variants:
                for node in variant.graph.find_nodes(op="call_module"):
                    self.callers.setdefault(owner.called(node), []).append((owner, node))
        self.sites = self._without_phantoms([site for owner in self.owners for site in self._sites(owner)])
        times = Counter(site.original for site in self.sites)
        for site in self.sites:
            site.repeated = site.original is not None and times[site.original] > 1
        _name_apart(self.sites)

    def _without_phantoms(self, sites: list[Site]) -> list[Site]:
        """Leaves out sites in the forward of a container that is never called: others call the modules in it."""
        live = [site.owner.module is self.model or site.owner.module in self.callers for site in sites]
        called = {site.original for site, is_live in zip(sites, live, strict=True) if is_live} - {None}
        return [site for site, is_live in zip(sites, live, strict=True) if is_live or site.original not in called]

    def _sites(self, owner: Owner) -> list[Site]:
        if type(owner.module) in TRANSFORMER_LAYERS:
            return _transformer_calls(owner)
        if not owner.variants:
            return self._registered(owner)
        sequences = [_activations(owner.module, variant.graph) for variant in owner.variants]
        sites = []
        for (node, activation, module), *others in zip(*sequences, strict=True):
            attribute = str(node.target) if module is not None else activation.name
            sites.append(Site(owner, attribute, activation, module, (node, *(other[0] for other in others))))
        return sites

    def _registered(self, owner: Owner) -> list[Site]:
        """The activations below an owner that cannot be traced, each taken for one site."""
        return [
            Site(owner, path, activation, module)
            for path, module in owner.module.named_modules()
            if module not in self.callers and (activation := activation_of(module)) is not None
            if self._nearest_owner(owner, path) is owner.module
        ]

    def _nearest_owner(self, owner: Owner, path: str) -> nn.Module:
        owners = {other.module for other in self.owners}
        while path:
            path = path.rpartition(".")[0]
            if (module := owner.module.get_submodule(path)) in owners:
                return module
        return owner.module


def _is_owner(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential) or type(module) in TRANSFORMER_LAYERS:
        return True
    opaque = type(module).__module__.startswith(("torch.nn.", "adalin.")) or isinstance(module, torch.jit.ScriptModule)
    return not opaque and activation_of(module) is None


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
        activation = activation_of(module) if module is not None else activation_of_node(node)
        if activation is not None and node.all_input_nodes:  # not on None
            found.append((node, activation, module))
    return found


def _transformer_calls(owner: Owner) -> list[Site]:
    function = owner.module.activation
    if isinstance(function, nn.Module):
        activation, module = activation_of(function), function
    else:
        graph = fx.Graph()
        activation, module = activation_of_node(graph.call_function(function, (graph.placeholder("x"),))), None  # type: ignore[arg-type]
    return [Site(owner, "activation", activation, module)] if activation is not None else []


def _name_apart(sites: list[Site]) -> None:
    """Give sites of functions, and all but the first site of a module, names that are free in their owner."""
    taken: dict[Owner, set[str]] = {}
    named: set[nn.Module] = set()
    for site in sites:
        if not site.nodes or (site.original is not None and site.original not in named):
            named.add(site.original)  # type: ignore[arg-type]
            continue
        names = taken.setdefault(site.owner, set())
        stem = site.attribute.rpartition(".")[2]
        stem = stem if stem.isidentifier() else site.activation.name
        candidates = (f"{stem}_{k}" if k else stem for k in range(10_000))
        site.attribute = next(n for n in candidates if n not in names and not hasattr(site.owner.module, n))
        names.add(site.attribute)
