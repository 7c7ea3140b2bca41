"""convert(model): AdaLin in place of a model's activations."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from adalin.nn import FUNCTIONS, AdaLin, Gate, Init, as_gate, check_init
from adalin.structure import (
    LEFT_ALONE,
    MAYBE,
    OUTPUT,
    UNSEEN,
    Axis,
    Site,
    Structure,
    activation_of,
    axis_of,
    escapes,
    is_formula,
    why_not_hidden,
)
from adalin.surgery._example import ExampleRun, taken, verified
from adalin.surgery._redirect import Switch
from adalin.surgery._replace import copied, replace, restored_on_failure, split_shared_activations
from adalin.surgery._report import Conversion, ConvertedSite

CONVERTIBLE = {function.__name__ for function, name in FUNCTIONS.items() if name not in LEFT_ALONE}
UNDECIDED = {MAYBE, UNSEEN, OUTPUT}
WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel"}
Patterns = str | Iterable[str] | None


def convert(
    model: nn.Module,
    *,
    inplace: bool = True,
    granularity: Literal["neuron", "layer", "network"] = "neuron",
    gate: str | Gate = "cosine",
    init: Init | None = None,
    only: Patterns = None,
    skip: Patterns = None,
    dim: Mapping[str, int] | None = None,
    example: Any = None,
) -> Conversion:
    """Put AdaLin in place of a model's hidden activations, whether they are modules or function calls.

    Every place that calls an activation gets a layer of its own, also where one module is called twice. The model
    keeps its class, its methods and its state-dict keys; the alphas come on top. With `init=0.0` its outputs do not
    change by a bit. Activations that give the model's output, gates (sigmoid) and links (softplus) stay as they are
    unless `only` names them. What is converted already stays so: a second call finds nothing new. Build the optimiser
    after converting, and copy target networks after converting too: each conversion draws its own alphas.

    Where a module's code calls functions, or one activation in several places, these calls are changed in its source,
    and nothing else; the code becomes that of a subclass with the same name. Models that are converted alike have the
    same classes, and pickle and copy as before. What cannot be converted faithfully is an error that says how to leave
    just that out, and the model is then as it was. Torch's transformer layers lose their fused inference path, which
    rounds differently.

    Args:
        inplace: change this model; False converts a deep copy.
        granularity: one alpha per "neuron" (channel, feature), per "layer", or one for the "network".
        gate: as in `AdaLin`.
        init: the first value of the alphas, as in `AdaLin`: None for U(0, 1).
        only: glob patterns on names: convert these and nothing else. The name of a module stands for the hidden
            activations in it; a pattern that matches an activation's own name converts a gate or the output, too.
        skip: glob patterns of what to leave alone.
        dim: axes of the neurons where the code does not tell: `{"encoder.*": -1}`.
        example: a batch: a tensor, a tuple of arguments or a dictionary of keywords. Copies of the model run on it, now
            and converted. It decides axes and outputs that the code leaves open; the report says what did not run
            and which activations stayed. Unless outputs are equal to the bit with all alphas at 0, nothing is changed.

    Examples:
        >>> from torch import nn
        >>> from adalin import convert
        >>> model = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
        >>> print(convert(model))
        site  base  width  alphas  axis
        1     relu    100     100    -1
        100 alphas added to 79,510 parameters (+0.13 %)
    """
    _refuse(model)
    check_init(init)
    gate = as_gate(gate)
    if granularity not in ("neuron", "layer", "network"):
        raise ValueError(f"granularity must be 'neuron', 'layer' or 'network', not {granularity!r}")
    if only is not None and not _as_list(only):
        raise ValueError("only= names nothing: leave it out to convert all hidden activations")
    if not inplace:
        model = copied(model)
    chosen = Wanted(_as_list(only), _as_list(skip), dict(dim or {}))
    with restored_on_failure(model):
        return _convert(model, chosen, granularity, gate, init, example)


def _convert(
    model: nn.Module, choice: "Wanted", granularity: str, gate: Gate, init: Init | None, batch: Any
) -> Conversion:
    parameters = sum(p.numel() for p in model.parameters() if not is_lazy(p))
    copies = split_shared_activations(model)
    example = None if batch is None else taken(batch, copied(model))
    structure = Structure(model, copies)
    choice.check(structure)
    _refuse_unreadable(structure, choice)
    reasons = {site: choice.reason(structure, site, example) for site in structure.sites}
    for site in structure.sites:  # one layer for both: both are converted, or none
        if site.twin is not None:
            reasons[site] = reasons[site.twin] = reasons[site.twin] or reasons[site]
    skipped = list(dict.fromkeys((site.name, reason) for site, reason in reasons.items() if reason is not None))
    skipped += [(stays.name, stays.reason) for stays in structure.stays]
    axes = {site: _axis(structure, site, choice, example) for site, reason in reasons.items() if reason is None}
    if not axes and not any(isinstance(module, AdaLin) for module in model.modules()):
        why = "; ".join(f"{name} is left alone ({reason})" for name, reason in skipped[:3])
        why += '; only="*" converts such too' if any(reasons.values()) and not choice.only else ""
        raise ValueError(
            f"nothing to convert in {type(model).__name__}: {why or 'it calls no activation AdaLin knows'}"
        )
    layers: dict[Site, AdaLin] = {}
    shared: nn.Parameter | None = None
    for site, axis in axes.items():
        if site.twin is not None and site.twin in layers:
            layers[site] = layers[site.twin]
            continue
        like = _parameter(axis.module, site.owner.module, model)
        layers[site] = AdaLin(
            site.activation.base,
            axis.width if granularity == "neuron" else 1,
            gate=gate,
            dim=axis.dim,
            init=init,
            alpha=shared,
            device=None if like is None else like.device,
            dtype=None if like is None else like.dtype,
        ).train(site.owner.module.training)
        if granularity == "network":
            shared = layers[site].alpha
    replace(structure, layers, copies)
    notes = [f"{site.name} stands in a loop: all rounds share its alphas" for site in layers if site.looping]
    for note in notes:
        warnings.warn(note, stacklevel=4)
    if example is not None:
        verdict = verified(model, example)
        notes += [f"{name} did not run on the example" for name in verdict.idle]
        known = {name for name, _ in skipped}
        skipped += [(name, f"{kind}, which only the run shows") for name, kind in verdict.stayed if name not in known]
        equal = "outputs on the example are equal to the bit with alpha = 0"
        notes.append(equal if verdict.repeats else "outputs could not be compared: the model gives others each time")
    elif guessed := [site.name for site, axis in axes.items() if axis.dim is None or not site.nodes]:
        notes.append(f"not verified without example=: {_few(guessed)}")
    sites = tuple(_converted(site, layers[site], axis) for site, axis in axes.items() if site.twin is None)
    alphas = {layer.alpha for layer in layers.values()}
    added = sum(alpha.numel() for alpha in alphas if not is_lazy(alpha))
    return Conversion(model, sites, tuple(skipped), added, parameters, tuple(notes))


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _refuse(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"convert takes an nn.Module, not {type(model).__name__}")
    name = type(model).__name__
    if (path := _path_into_itself(model)) is not None:
        raise ValueError(f"{name} cannot be converted: its module {path!r} contains itself")
    compiled = [vars(module).get("_compiled_call_impl") for module in model.modules()]
    if any(call is not None and not isinstance(call, Switch) for call in compiled) or any(
        "_orig_mod" in module._modules for module in model.modules()
    ):
        raise ValueError(f"{name} is compiled: convert the model before torch.compile")
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"{name} is a ScriptModule, whose code is fixed: convert the model before torch.jit")
    for module in model.modules():
        if isinstance(module, nn.DataParallel) or type(module).__name__ in WRAPPERS:
            raise ValueError(f"{type(module).__name__} wraps the model: convert the model before wrapping it")
    if any(type(parameter).__name__ == "DTensor" for parameter in model.parameters()):
        raise ValueError(f"{name} is sharded: convert the model before fully_shard")
    if (activation := activation_of(model)) is not None:
        raise ValueError(f"{name} is itself an activation: use AdaLin({activation.name!r}) in its place")


def _path_into_itself(model: nn.Module) -> str | None:
    """Where a module is that is also one of those around it."""
    done: set[nn.Module] = set()

    def search(module: nn.Module, path: tuple[str, ...], around: frozenset[nn.Module]) -> str | None:
        if module in around:
            return ".".join(path)
        if module not in done:
            for name, child in module.named_children():
                found = search(child, (*path, name), around | {module})
                if found is not None:
                    return found
            done.add(module)
        return None

    return search(model, (), frozenset())


def _refuse_unreadable(structure: Structure, choice: "Wanted") -> None:
    """Functions that are certainly called, in code that cannot be changed."""
    for site in structure.sites:
        if site.unreachable and choice.reason(structure, site) is None:
            raise ValueError(
                f"cannot convert the call of {site.activation.name} in the code of {site.owner}, because "
                f"{site.unreachable}: leave it out with skip={site.name!r}, or use an AdaLin layer in its code"
            )
    for owner in structure.owners:
        if owner.variants or owner.source is None:
            continue
        for name in owner.source.unread_names(CONVERTIBLE):
            path = f"{owner.path}.{name}".lstrip(".")
            if not (_matches(path, choice.skip) or (choice.only and not _matches(path, choice.only))):
                raise ValueError(
                    f"cannot convert the call of {name} in the code of {owner}, because its source cannot be read and "
                    f"{owner.failure}: leave it out with skip={path!r}, or use an AdaLin layer in its code"
                )


@dataclass(frozen=True)
class Wanted:
    """What to convert and what not."""

    only: list[str]
    skip: list[str]
    dim: dict[str, int]

    def check(self, structure: Structure) -> None:
        """Raise unless every pattern stands for something."""
        names = [site.name for site in structure.sites]
        stays = [one.name for one in structure.stays]
        converted = [name for name, module in structure.model.named_modules() if isinstance(module, AdaLin)]
        stays += [
            f"{owner.path}.{name}".lstrip(".")
            for owner in structure.owners
            if owner.source is not None
            for name in owner.source.unread_names(CONVERTIBLE)
        ]
        known = [*names, *stays, *converted, *(owner.path for owner in structure.owners)]
        for pattern in [*self.only, *self.skip, *self.dim]:
            if not any(_matches(name, [pattern]) for name in known):
                shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
                raise ValueError(f"no activation matches {pattern!r}; there are: {shown or 'none'}")

    def reason(self, structure: Structure, site: Site, example: ExampleRun | None = None) -> str | None:
        """Why a site is left alone; None if it is to be converted."""
        reason = self._reason(structure, site)
        units = None if example is None else example.units.get(site.name)
        if units is None or site.nodes or reason in (None, OUTPUT) or reason not in UNDECIDED:
            return reason
        return None if units.outgoing and "the model's outputs" not in units.entangled else OUTPUT

    def _reason(self, structure: Structure, site: Site) -> str | None:
        if _matches(site.name, self.skip):
            return "named by skip="
        if self.only and not _matches(site.name, self.only):
            return "not named by only="
        if escapes(structure, site):
            return "works in place on a tensor that others may read: set inplace=False first"
        if any(fnmatchcase(site.name, pattern) for pattern in self.only):
            return None
        if site.activation.name in LEFT_ALONE:
            return LEFT_ALONE[site.activation.name]
        return "part of a formula" if is_formula(site) else why_not_hidden(structure, site)


def _axis(structure: Structure, site: Site, choice: Wanted, example: ExampleRun | None) -> Axis:
    axis = axis_of(structure, site)
    units = None if example is None else example.units.get(site.name)
    if units is not None and units.width and (axis.doubt or axis.dim is None or not site.nodes):
        axis = Axis(units.axis, units.width, axis.module)
    given = [dim for pattern, dim in choice.dim.items() if _matches(site.name, [pattern])]
    if given:
        return axis if axis.dim == given[-1] else Axis(given[-1], None, axis.module)
    if axis.doubt:
        raise ValueError(
            f"cannot tell the axis of the neurons at {site.name}, behind {axis.doubt}: give it with "
            f"dim={{{site.name!r}: -1}} or whichever axis it is, or with example=, or leave it out with "
            f"skip={site.name!r}"
        )
    return axis


def _as_list(patterns: Patterns) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns or ())


def _matches(name: str, patterns: list[str]) -> bool:
    """Whether a pattern matches the name, or a module that contains it."""
    parts = name.split(".")
    paths = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return any(fnmatchcase(path, pattern) for path in paths for pattern in patterns)


def _parameter(*modules: nn.Module | None) -> Tensor | None:
    """A parameter of the first of the modules that has one."""
    parameters = (p for module in modules if module is not None for p in module.parameters() if p.is_floating_point())
    return next(parameters, None)


def _converted(site: Site, layer: AdaLin, axis: Axis) -> ConvertedSite:
    alphas = None if is_lazy(layer.alpha) else layer.alpha.numel()
    way = "redirected" if site.path and site.path[-1][0] < 0 else "call" if site.original is None else "module"
    width = alphas if axis.width is None and layer.dim is not None and alphas != 1 else axis.width
    return ConvertedSite(site.name, layer.base.name, width, alphas, layer.dim, way)
