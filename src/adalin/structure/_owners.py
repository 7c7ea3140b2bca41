"""A model as its owners, the modules with a forward of their own, and the places where these call activations."""

import ast
import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from adalin.nn import FUNCTIONS, MODULES
from adalin.structure._activations import (
    NAMES,
    Nonlinearity,
    activation_of,
    activation_of_node,
    called_with,
    function_activation,
    function_without_base,
    is_hashable,
    no_base,
    no_base_of_node,
)
from adalin.structure._source import UNKNOWN, Bound, Call, Source, is_helper
from adalin.structure._trace import Tracing, UntraceableError, Variant

TRANSFORMER_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
"""Torch's own owners of an activation: `activation`, a function or a module, behind `linear1`."""


@dataclass(eq=False)
class Owner:
    """A module with a forward of its own."""

    path: str
    """Path of the module in the model."""
    module: nn.Module
    """Module whose code it is."""
    source: Source | None = None
    """Code of the module; None where it is torch's."""
    variants: list[Variant] = field(default_factory=list)
    """Graphs of the forward, and of other methods that are entries, in each mode and for forms of their arguments."""
    failure: str = ""
    """Reason why there are no variants of the forward."""
    tracing: Tracing | None = None
    """Maker of the variants."""

    def __str__(self) -> str:
        name = type(self.module).__name__
        return f"{self.path!r} ({name})" if self.path else f"the model ({name})"

    def called(self, node: fx.Node) -> nn.Module:
        """The module that a node of its graphs calls."""
        assert node.op == "call_module"
        return self.module.get_submodule(str(node.target))


@dataclass(eq=False)
class Site:
    """One place in an owner's code that calls an activation."""

    owner: Owner
    """Owner whose code it is in."""
    attribute: str
    """Path of the activation, or of its AdaLin to be, inside the owner."""
    activation: Nonlinearity
    """Activation that is called."""
    original: nn.Module | None
    """Module that is called; None for a function or method."""
    nodes: tuple[fx.Node, ...] = ()
    """Calls in the variants of the owner; empty where none was traced."""
    path: tuple[Call, ...] = ()
    """Calls in the owner's code that lead to it, and its own at the end; empty where others' code calls it."""
    nth: int = 0
    """Number of times that this path has been taken before, in one run."""
    repeated: bool = False
    """Whether the module is called in other places too."""
    fixed: bool = True
    """Whether the code alone says what is called here."""
    unreachable: str = ""
    """Reason why its call cannot be changed; empty where it can."""
    looping: bool = False
    """Whether it stands in a loop whose rounds nobody could count."""
    twin: "Site | None" = None
    """Site of the same units in another method, whose layer serves here too."""

    @property
    def name(self) -> str:
        """Path of the site in the model."""
        return f"{self.owner.path}.{self.attribute}".lstrip(".")


@dataclass(frozen=True)
class Stays:
    """An activation that cannot become an AdaLin."""

    name: str
    """Path of the module, or of the owner and the function."""
    reason: str
    """Reason why it stays."""


class Structure:
    """The owners of a model, traced, the sites of their activations, and who calls whom.

    The model stays as it is. An activation object that stands in several places is one object: `convert` splits it
    first.
    """

    def __init__(self, model: nn.Module, copies: Mapping[nn.Module, nn.Module] | None = None) -> None:
        self.model = model
        self.copies = copies or {}
        """For activations that were one object under several names, and are several now: the first."""
        self.stays: list[Stays] = []
        """Activations that are none of AdaLin's, or out of reach."""
        self.owners = [_owner(path, module) for path, module in model.named_modules() if _is_owner(module)]
        self.callers: dict[nn.Module, list[tuple[Owner, fx.Node]]] = {}
        self._count_callers()
        for owner in self.owners:
            self._trace_further(owner)
        self.callers.clear()
        self._count_callers()
        self.sites = self._without_phantoms([site for owner in self.owners for site in self._sites(owner)])
        times = Counter(site.original for site in self.sites if site.twin is None)
        for site in self.sites:
            site.repeated = site.original is not None and times[site.original] > 1
        _name_apart(self.sites)
        self._find_what_stays()

    def _count_callers(self) -> None:
        for owner in self.owners:
            for variant in owner.variants:
                for node in variant.graph.find_nodes(op="call_module"):
                    self.callers.setdefault(owner.called(node), []).append((owner, node))

    def _trace_further(self, owner: Owner) -> None:
        """Other methods that are entries, and other forms of the arguments, while the code has unseen calls."""
        source = owner.source
        if source is None or isinstance(owner.module, fx.GraphModule):
            return
        tracing = owner.tracing or Tracing(owner.module, source)
        seen = {
            call for variant in owner.variants for node in variant.graph.nodes for call in node.meta.get("path", ())
        }
        wanted = [call for call, _ in source.calls() if call in source.edges or self._is_of_interest(owner, call)]
        if owner.variants and (source.unreadable or any(call not in seen for call in wanted)):
            for variant in tracing.others():
                found = {call for node in variant.graph.nodes for call in node.meta.get("path", ())}
                if not {call for call in found if call in wanted or call[0] < 0} <= seen:
                    owner.variants.append(variant)
                    seen |= found
        inner = set(source.edges.values())
        for number, function in enumerate(source.functions):
            own = [call for call in wanted if call[0] == number and call not in seen]
            is_entry = function.is_method and number not in inner and function.name != "forward"
            if own and is_entry and isinstance(function.place, tuple):
                try:
                    variants = tracing.first(function.name)
                except (UntraceableError, ValueError, TypeError, AttributeError):
                    continue
                owner.variants += variants
                seen |= {call for v in variants for node in v.graph.nodes for call in node.meta.get("path", ())}

    def _is_of_interest(self, owner: Owner, call: Call) -> bool:
        assert owner.source is not None
        target = owner.source.value(owner.source.at(call).func, call[0])
        if isinstance(target, nn.Module):
            return (target is not owner.module and activation_of(target) is None) or target not in self.callers
        return _static(owner.source, call) is not None

    def _without_phantoms(self, sites: list[Site]) -> list[Site]:
        """Leaves out sites in the forward of a container that is never called: others call the modules in it."""
        live = [site.owner.module is self.model or site.owner.module in self.callers for site in sites]
        called = {site.original for site, is_live in zip(sites, live, strict=True) if is_live} - {None}
        return [site for site, is_live in zip(sites, live, strict=True) if is_live or site.original not in called]

    def _sites(self, owner: Owner) -> list[Site]:
        if is_transformer_layer(owner.module):
            return _transformer_calls(owner)
        sites = self._traced(owner)
        sites += self._unseen(owner, sites)
        if not any(variant.method == "forward" for variant in owner.variants):
            sites += self._registered(owner, {site.original for site in sites})
        return sites

    def _traced(self, owner: Owner) -> list[Site]:
        """The calls in the graphs, one site for each path through the code and each time that it is taken."""
        found: dict[Any, Site] = {}
        inner: dict[Any, Nonlinearity] = {}
        for variant in owner.variants:
            times: Counter[Any] = Counter()
            for node, activation, module in _activations(owner.module, variant.graph):
                path = node.meta.get("path", ())
                if node.meta.get("foreign"):  # a method of another module, which is an owner itself
                    if module is None:
                        continue
                    path = ()
                static = _static(owner.source, path[-1]) if path and owner.source is not None else None
                if isinstance(static, tuple) and module is None and static[0] != activation:
                    if static[0].formula is None or ((variant, path) in inner and inner[variant, path] != activation):
                        continue
                    inner[variant, path] = activation  # one call of a formula has several nodes of torch's
                    activation = static[0]
                key = (path, module) if path or module is not None else (activation, "nobody's code")
                times[key] += 1
                site = found.get((key, times[key]))
                if site is None:
                    attribute = str(node.target) if module is not None else activation.name
                    site = Site(owner, attribute, activation, module, (), path, times[key] - 1)
                    site.fixed = isinstance(static, tuple) and static[0] == activation
                    if module is None:
                        site.unreachable = _unreachable(owner, node, static)
                    found[key, times[key]] = site
                if site.activation == activation:
                    site.nodes += (node,)
        together: dict[nn.Module, Site] = {}
        for site in list(found.values()):
            if site.original is None or site.path:
                continue
            first = together.setdefault(site.original, site)
            if first is not site:  # others' code calls one module several times: nobody can tell the calls apart
                first.nodes += site.nodes
                first.looping = True
        return self._with_twins([s for s in found.values() if s.original is None or together.get(s.original, s) is s])

    def _with_twins(self, sites: list[Site]) -> list[Site]:
        """Calls behind the same layer that are never made in one run, as in two methods, have the same units."""
        groups: dict[Any, list[Site]] = {}
        for site in sites:
            layer = _layer_before(site.nodes[0].all_input_nodes[0]) if site.nodes else None
            if layer is not None:
                groups.setdefault((layer, site.activation), []).append(site)
        for group in groups.values():
            for place, site in enumerate(group):
                graphs = {node.graph for node in site.nodes}
                others = [one for one in group[:place] if one.twin is None]
                if others and not any(graphs & {node.graph for node in other.nodes} for other in group[:place]):
                    site.twin = others[0]
        return sites

    def _unseen(self, owner: Owner, sites: list[Site]) -> list[Site]:
        """The calls in the code that no graph has."""
        source = owner.source
        if source is None:
            return []
        seen = {call for site in sites for call in site.path[-1:]}
        found: list[Site] = []
        for call, syntax in source.calls():
            if (
                call in seen
                or source.at(call) is not syntax
                or (static := _static(source, call)) is None
                or isinstance(static, str)
            ):
                continue
            activation, module = static
            path = "" if module is None else _path_in(owner.module, module)
            if path is None or (module is not None and any(s.original is module for s in sites) and not owner.failure):
                continue
            site = Site(owner, path or activation.name, activation, module, (), (call,))
            site.looping = source.is_looping(call)
            others = [one for one in (*sites, *found) if module is not None and one.original is module and one.path]
            same = [one for one in others if one.path[-1][0] != call[0] and one.twin is None]
            site.twin = same[0] if same else None  # in another function: perhaps another way to compute the same
            found.append(site)
        return found

    def _registered(self, owner: Owner, known: set[nn.Module | None]) -> list[Site]:
        """The activations below an owner that cannot be traced, each taken for one site."""
        called = {self.copies.get(module, module) for module in (*self.callers, *known) if module is not None}
        named = owner.source.names() if owner.source is not None else set()
        return [
            Site(owner, path, activation, module)
            for path, module in owner.module.named_modules()
            if path.partition(".")[0] in named or not named or isinstance(owner.module, nn.Sequential)
            if self.copies.get(module, module) not in called and (activation := activation_of(module)) is not None
            if self._nearest_owner(owner, path) is owner.module
        ]

    def _nearest_owner(self, owner: Owner, path: str) -> nn.Module:
        owners = {other.module for other in self.owners}
        while path:
            path = path.rpartition(".")[0]
            if (module := owner.module.get_submodule(path)) in owners:
                return module
        return owner.module

    def _find_what_stays(self) -> None:
        converted = {site.original for site in self.sites}
        for path, module in self.model.named_modules():
            if module not in converted and (reason := no_base(module)) is not None:
                self.stays.append(Stays(path, reason))
        for owner in self.owners:
            names: Counter[str] = Counter()
            calls: set[Any] = set()
            if owner.source is None:
                continue
            for call, _ in owner.source.calls():
                if isinstance(static := _static(owner.source, call), str):
                    calls.add((call, static))
            for variant in owner.variants:
                for node in variant.graph.nodes:
                    if node.op in ("call_function", "call_method"):
                        reason = no_base_of_node(node, None)
                        path = node.meta.get("path", ())
                        if reason is not None and path:
                            calls.add((path[-1], reason))
            for _, reason in sorted(calls):
                word = reason.partition(",")[0].partition("(")[0]
                names[word] += 1
                name = word if names[word] == 1 else f"{word}_{names[word] - 1}"
                self.stays.append(Stays(f"{owner.path}.{name}".lstrip("."), reason))


def _layer_before(value: fx.Node) -> str | None:
    """The child that computes a value, apart from its dtype and layout."""
    while value.op == "call_method" and value.target in ("float", "to", "half", "double", "type_as", "contiguous"):
        value = value.all_input_nodes[0]
    return str(value.target) if value.op == "call_module" else None


def is_transformer_layer(module: nn.Module) -> bool:
    """Whether a module is one of torch's own layers with an activation, converted or not."""
    cls = next((c for c in type(module).__mro__ if "_adalin_origin" not in vars(c)), None)
    return cls in TRANSFORMER_LAYERS


def _is_owner(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential) or is_transformer_layer(module):
        return True
    opaque = type(module).__module__.startswith(("torch.nn.", "adalin.")) or isinstance(module, torch.jit.ScriptModule)
    return not opaque and activation_of(module) is None


def _owner(path: str, module: nn.Module) -> Owner:
    if is_transformer_layer(module):
        return Owner(path, module, failure="it is torch's own")
    owner = Owner(path, module, Source(module, _Interest(module), function_activation))
    if isinstance(module, fx.GraphModule):
        owner.variants = [Variant("forward", module.training, {}, module.graph)]
        for node in module.graph.find_nodes(op="placeholder"):
            node.meta["method"] = "forward"
        return owner
    if type(module).forward is nn.Module.forward and "forward" not in vars(module):
        owner.failure = "it has no forward"
        return owner
    try:
        owner.tracing = Tracing(module, owner.source)
        owner.variants = owner.tracing.first()
    except UntraceableError as error:
        owner.failure = str(error)
    except (ValueError, TypeError) as error:  # a forward without a signature
        owner.failure = str(error)
    return owner


class _Interest:
    """Which functions may call activations: those whose code names one."""

    def __init__(self, module: nn.Module) -> None:
        values = [*vars(module).items(), *module._modules.items()]
        self.attributes = {name for name, value in values if _may_be_activation(value)}

    def __call__(self, names: set[str], function: types.FunctionType) -> bool:
        if names & NAMES or names & self.attributes:
            return True
        return any(_may_be_activation(function.__globals__.get(name)) for name in names)


def _may_be_activation(value: Any) -> bool:
    if isinstance(value, nn.Module):
        return activation_of(value) is not None
    if isinstance(value, dict):
        return any(
            _may_be_activation(one) or (isinstance(one, type) and one in MODULES) for one in list(value.values())[:8]
        )
    if isinstance(value, partial):
        return _may_be_activation(value.func)
    if isinstance(value, types.FunctionType):
        return is_helper(value) and function_activation(value) is not None
    return callable(value) and is_hashable(value) and value in FUNCTIONS


def _static(source: Source, call: Call) -> "tuple[Nonlinearity, nn.Module | None] | str | None":
    """The activation that a call is as far as the code says so, with the module; why it is none; None for others."""
    if call[0] < 0:
        return None
    node = source.at(call)
    target = source.value(node.func, call[0])
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    if target is UNKNOWN:
        if not isinstance(node.func, ast.Attribute) or node.args or node.keywords:
            return None
        function = getattr(Tensor, node.func.attr, None)  # x.relu(), of whatever x is
        if function in FUNCTIONS and source.value(node.func.value, call[0]) is UNKNOWN:
            return called_with(FUNCTIONS[function], function, [None], {}), None  # type: ignore[return-value]
        return None
    if isinstance(target, nn.Module):
        activation = activation_of(target)
        registered = _path_in(source.module, target) is not None
        if activation is None:
            return None if registered else no_base(target)
        return activation, target if registered else None
    if isinstance(target, Bound | type) or not is_hashable(target):
        return None
    if not (node.args or any(k.arg == "input" for k in node.keywords)):
        return None
    args = [source.value(argument, call[0]) for argument in node.args] or [None]
    kwargs = {k.arg: source.value(k.value, call[0]) for k in node.keywords if k.arg is not None}
    if target in FUNCTIONS:
        given = {k: v for k, v in kwargs.items() if not (k == "inplace" and v is UNKNOWN)}
        if any(value is UNKNOWN for value in (*args[1:], *(v for k, v in given.items() if k != "input"))):
            return f"{target.__name__} with an argument that is computed"
        activation = called_with(FUNCTIONS[target], target, args, given)
        return None if activation is None else (activation, None)
    if (reason := function_without_base(target, args, kwargs)) is not None:
        return reason
    if isinstance(target, types.FunctionType | partial) and len(node.args) == 1 and not node.keywords:
        activation = function_activation(target) if isinstance(target, partial) or is_helper(target) else None
        return None if activation is None else (activation, None)
    return None


def _unreachable(owner: Owner, node: fx.Node, static: Any) -> str:
    """Why the code that makes a call cannot be changed; empty where it can."""
    path = node.meta.get("path", ())
    if isinstance(owner.module, fx.GraphModule):
        return "it is a GraphModule, whose copies go back to their own graph"
    if not path or owner.source is None:
        return "others' code calls it"
    if isinstance(static, tuple):
        return ""
    if path[-1][0] < 0:
        return "its source cannot be read, and it is called inside others' code" if node.meta.get("indirect") else ""
    call = owner.source.at(path[-1])
    known = owner.source.value(call.func, path[-1][0])
    if known is not UNKNOWN or node.meta.get("indirect"):
        return f"it is called inside {ast.unparse(call.func)}, whose code is not the module's"
    return ""


def _path_in(owner: nn.Module, module: nn.Module) -> str | None:
    return next((path for path, child in owner.named_modules() if child is module), None)


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
        if is_transformer_layer(site.owner.module):
            continue
        if site.twin is not None:
            site.attribute = site.twin.attribute  # named before: it comes first
            continue
        if site.original is not None and site.original not in named:
            named.add(site.original)
            continue
        names = taken.setdefault(site.owner, set())
        stem = site.attribute.rpartition(".")[2]
        stem = stem if stem.isidentifier() else site.activation.name
        candidates = (f"{stem}_{k}" if k else stem for k in range(10_000))
        site.attribute = next(n for n in candidates if n not in names and not _has(site.owner.module, n))
        names.add(site.attribute)


def _has(module: nn.Module, name: str) -> bool:
    """Whether a module has an attribute, without asking a `__getattr__` of its own."""
    kinds = (vars(module).get(kind, {}) for kind in ("_modules", "_parameters", "_buffers"))
    return (
        name in vars(module)
        or any(name in kind for kind in kinds)
        or any(name in vars(c) for c in type(module).__mro__)
    )
