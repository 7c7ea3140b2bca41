"""Put layers into a model: in the places of modules, and into the code where that has to change."""

import copy
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as replaced
from functools import partial
from typing import Any

from torch import nn

from adalin.nn import AdaLin
from adalin.structure import Call, Owner, Site, Structure, activation_of, is_aliased, is_transformer_layer
from adalin.surgery._redirect import Way
from adalin.surgery._rewrite import Changed, Edit, Rewriting, SitesOfCall, apply, converted_class, digest_of, origin_of

Copies = dict[nn.Module, nn.Module]
"""The object that a copy was made of, for activations that stood in several places."""


def copied(model: nn.Module) -> nn.Module:
    """A deep copy, also of torch's decoder layers, whose copies forget an activation that is a module."""
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, nn.TransformerDecoderLayer) and "activation" in module._modules:
            vars(module).pop("activation", None)
    return twin


@contextmanager
def restored_on_failure(model: nn.Module) -> Iterator[None]:
    """Give the model all its modules and classes again if a conversion fails."""
    before = [(module, type(module), dict(vars(module)), dict(module._modules)) for module in model.modules()]
    lists = [(kept, list(kept)) for kept in _lists(model)]
    try:
        yield
    except BaseException:
        for module, cls, attributes, children in before:
            module.__class__ = cls
            vars(module).clear()
            vars(module).update(attributes)
            module._modules.clear()
            module._modules.update(children)
        for kept, items in lists:
            kept[:] = items
        raise


def split_shared_activations(model: nn.Module) -> Copies:
    """An activation object that stands in several places becomes one object per place."""
    seen: set[nn.Module] = set()
    copies: Copies = {}
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is not None and child in seen and activation_of(child) is not None:
                parent._modules[name] = twin = copy.deepcopy(child)
                copies[twin] = child
            elif child is not None:
                seen.add(child)
    return copies


def replace(structure: Structure, layers: dict[Site, AdaLin], copies: Copies) -> None:
    """Put the layers into the model, and new code where that has to change."""
    changed = {site.original for site in layers} - {None}
    recipes = {owner: recipe_of(owner, structure.sites, layers) for owner in structure.owners}
    for owner, recipe in recipes.items():
        try:
            converted_class(type(owner.module), recipe)
        except (RuntimeError, SyntaxError, ValueError, AttributeError) as error:
            raise ValueError(
                f"cannot change the code of {owner}, because {error}: leave its calls out with skip=, or use AdaLin "
                "layers in its code"
            ) from error
    instead: dict[nn.Module, nn.Module] = {}
    for site in structure.sites:
        parent, _, name = site.attribute.rpartition(".")
        home = site.owner.module.get_submodule(parent)
        if site in layers:
            setattr(home, name, layers[site])
            if site.original is not None:
                instead.setdefault(site.original, layers[site])
            if is_transformer_layer(home):
                home.activation_relu_or_gelu = 0  # type: ignore[assignment]  # or inference would bypass the layer
        elif site.repeated and site.original in changed:
            setattr(home, name, site.original)  # this site keeps it; another's AdaLin may have taken its place
    _restore_names(structure, instead, copies)
    for owner, recipe in recipes.items():
        decoder = isinstance(owner.module, nn.TransformerDecoderLayer) and "activation" in owner.module._modules
        if recipe.functions or recipe.ways or (decoder and "_adalin_origin" not in vars(type(owner.module))):
            apply(owner.module, recipe)
    for module in structure.model.modules():
        if isinstance(module, nn.TransformerEncoder):  # nested tensors are for fused layers only
            module.use_nested_tensor &= all(getattr(layer, "activation_relu_or_gelu", 0) for layer in module.layers)


def _restore_names(structure: Structure, instead: dict[nn.Module, nn.Module], copies: Copies) -> None:
    """Names of one object that nobody calls follow the name that is called; what is left alone is itself again."""
    first = {copies.get(module, module): layer for module, layer in reversed(instead.items())}
    called = {site.original for site in structure.sites}
    for parent in structure.model.modules():
        for name, child in list(parent._modules.items()):
            if child is None or isinstance(child, AdaLin):
                continue
            original = copies.get(child, child)
            if child not in called and original in first:
                parent._modules[name] = first[original]
            elif child in copies and original not in first:
                parent._modules[name] = original
    for kept in _lists(structure.model):
        for place, item in enumerate(kept):
            if isinstance(item, nn.Module) and item in instead:
                kept[place] = instead[item]
    for module in _hidden_modules(structure.model):
        for name, child in list(module._modules.items()):
            if child is not None and child in instead:
                module._modules[name] = instead[child]


def _hidden_modules(model: nn.Module) -> list[nn.Module]:
    """Modules that a model keeps in plain lists, tuples and dictionaries, unregistered."""
    known = set(model.modules())
    found: list[nn.Module] = []
    pending: list[Any] = [value for module in known for value in vars(module).values()]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        if isinstance(value, list | tuple) or type(value) is dict:
            seen.add(id(value))
            pending += value.values() if isinstance(value, dict) else value
        elif isinstance(value, nn.Module) and value not in known:
            known.add(value)
            found += value.modules()
            pending += [inner for module in value.modules() for inner in vars(module).values()]
    return found


def _lists(model: nn.Module) -> list[list[Any]]:
    """Plain lists of a model's modules, those of hidden modules too."""
    modules = [*model.modules(), *_hidden_modules(model)]
    return [value for module in modules for value in vars(module).values() if type(value) is list]


def recipe_of(owner: Owner, sites: list[Site], layers: dict[Site, AdaLin]) -> Rewriting:
    """The changes of an owner's code that the layers ask for."""
    source = owner.source
    own = [site for site in sites if site.owner is owner and site.path]
    changed = {site.original for site in sites if site in layers} - {None}
    groups: dict[Call, list[Site]] = defaultdict(list)
    for site in own:
        groups[site.path[-1]].append(site)
    if source is None:
        return Rewriting()
    number_of = partial(_number, earlier=len(origin_of(type(owner.module))[1]))
    edits: dict[int, dict[int, Edit]] = defaultdict(dict)
    counting: set[int] = set()
    passing: set[Call] = set()
    found: list[SitesOfCall] = []
    unread = {call: group for call, group in groups.items() if call[0] < 0}
    for call, group in groups.items():
        if call[0] < 0 or not any(_needs_code(site, layers, changed) for site in group):
            continue
        one = group[0]
        back = any(site in layers and is_aliased(site) for site in group)
        if len(group) == 1 and one.fixed:
            edits[call[0]][call[1]] = Edit(call[1], "direct", one.attribute, writes_back=back)
            continue
        edits[call[0]][call[1]] = Edit(call[1], "guarded", key=number_of(call))
        name = "" if one.original is not None or one.fixed else one.activation.name
        by_path: dict[tuple[Call, ...], list[Site]] = defaultdict(list)
        for site in group:
            by_path[site.path].append(site)
        for path, members in by_path.items():
            ordered = tuple(_attribute(s, layers, changed) for s in sorted(members, key=lambda s: s.nth))
            found.append(SitesOfCall(tuple(map(number_of, path)), ordered, back, name))
            if len(group) > 1:
                counting |= {number for number, _ in path}
                passing |= set(path[:-1])
        if (number_of(call),) not in [site.path for site in found]:
            found.append(SitesOfCall((number_of(call),), found[-1].layers, back, name))
    for call in passing:
        edits[call[0]][call[1]] = Edit(call[1], "passed", key=number_of(call), passes=True)
    pending = True
    while pending:  # who calls a function that becomes a method, or gets another name, changes too
        pending = False
        for call, number in source.edges.items():
            function = source.functions[number]
            renamed = function.name.startswith("_adalin_")
            if number in edits and renamed and edits[call[0]].get(call[1], Edit(0, "passed")).kind == "passed":
                old = edits[call[0]].get(call[1])
                passes = old is not None and old.passes
                edits[call[0]][call[1]] = Edit(call[1], "helper", function.name, number_of(call), passes=passes)
                pending = True
    functions = []
    for number in sorted(edits):
        if not edits[number]:
            continue
        function = source.functions[number]
        functions.append(
            Changed(
                function.place,
                function.name,
                function.self_name,
                function.is_method,
                number in counting,
                tuple(sorted(edits[number].values(), key=lambda edit: edit.call)),
                digest_of(function.function),
            )
        )
    return _with_unread(Rewriting(tuple(functions), tuple(found)), owner, unread, layers, changed)


def _with_unread(
    recipe: Rewriting,
    owner: Owner,
    groups: dict[Call, list[Site]],
    layers: dict[Site, AdaLin],
    changed: set[nn.Module | None],
) -> Rewriting:
    """The changes of calls whose source nobody has."""
    source = owner.source
    members = [site for group in groups.values() for site in group]
    if source is None or not any(_needs_code(site, layers, changed) for site in members):
        return recipe
    ways: dict[Way, tuple[str, ...]] = {}
    for site in sorted(members, key=lambda site: site.nth):
        way = tuple((source.unreadable_codes[-1 - number], place) for number, place in site.path)
        ways[way] = (*ways.get(way, ()), _attribute(site, layers, changed))
    for way, names in list(ways.items()):
        for start in range(1, len(way)):  # the inner functions may be called by others
            ways.setdefault(way[start:], names)
    switches = {
        site.original: site.attribute for site in reversed(members) if site.original in changed and site.repeated
    }
    methods = {"forward", *(one.name for one in source.unreadable if one.is_method)}
    return replaced(recipe, ways=tuple(ways.items()), switches=tuple(switches.values()), methods=tuple(sorted(methods)))


def _needs_code(site: Site, layers: dict[Site, AdaLin], changed: set[nn.Module | None]) -> bool:
    if site.original is None:
        return site in layers
    return (site.repeated and site.original in changed) or (site in layers and is_aliased(site))


def _attribute(site: Site, layers: dict[Site, AdaLin], changed: set[nn.Module | None]) -> str:
    """Path of what a site calls; empty for a function that stays."""
    return site.attribute if site in layers or site.original is not None else ""


def _number(call: Call, earlier: int = 0) -> int:
    """The key of a call; conversions one after the other have different ones."""
    return (earlier * 1000 + call[0]) * 100_000 + call[1]
