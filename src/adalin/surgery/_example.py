"""What a run on an example says of a conversion: it is counted from outside, on copies of the model."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from adalin.nn import AdaLin, PerNeuron
from adalin.structure import ActivationCall, Units, find_units, undisturbed, watch_activations


@dataclass
class ExampleRun:
    """A batch, and what the model as it was does with it."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    units: dict[str, Units] = field(default_factory=dict)
    """Units of the activations that the model calls, by name."""
    outputs: list[list[Tensor]] = field(default_factory=list)
    """Outputs in eval mode, in train mode, and in eval mode again."""
    repeats: bool = True
    """Whether the model computes the same twice."""

    def run(self, model: nn.Module) -> list[list[Tensor]]:
        """The outputs of a model that may be changed by it."""
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it rounds differently
        found = []
        try:
            for training in (False, True):
                with undisturbed(model, device, training=training):
                    torch.manual_seed(0)
                    args, keywords = copy.deepcopy((self.args, self.keywords))
                    found.append(_tensors(model(*args, **keywords)))
        except Exception as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise ValueError(f"{type(model).__name__} does not run on the example: {reason}") from error
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
        return found


@dataclass(frozen=True)
class RunVerdict:
    """What a run of the converted model says."""

    idle: tuple[str, ...]
    """Layers that it does not call."""
    stayed: tuple[tuple[str, str], ...]
    """Activations that it calls and that are no AdaLin, with their kind."""
    repeats: bool
    """Whether the model computes the same twice, so that outputs could be compared."""


def taken(example: Any, twin: nn.Module) -> ExampleRun:
    """Run a copy of the model as it was."""
    if isinstance(example, Mapping):
        found = ExampleRun((), dict(example))
    else:
        found = ExampleRun(tuple(example) if isinstance(example, tuple | list) else (example,), {})
    found.outputs = found.run(twin)
    found.repeats = _equal(found.outputs, found.run(twin))
    try:
        found.units = {units.name: units for units in find_units(twin, *found.args, **found.keywords)}
    except Exception:  # an operation that it cannot follow; then the code alone decides
        found.units = {}
    return found


def verified(model: nn.Module, example: ExampleRun) -> RunVerdict:
    """Run a copy of the converted model with all alphas at 0; raise unless it computes what the model did."""
    twin = copy.deepcopy(model)
    called: set[nn.Module] = set()
    calls: dict[str, str] = {}

    def see(call: ActivationCall, given: Tensor, result: Tensor) -> None:
        if not isinstance(call.module, PerNeuron):
            calls[call.name] = call.activation

    layers = {name: module for name, module in twin.named_modules() if isinstance(module, AdaLin)}
    handles = [layer.register_forward_hook(lambda module, *_: called.add(module)) for layer in layers.values()]
    with watch_activations(twin, see):
        example.run(twin)
    for handle in handles:
        handle.remove()
    idle = tuple(name for name, layer in layers.items() if layer not in called)
    real = dict(model.named_modules())
    for name, layer in layers.items():  # the widths that the run has told
        if isinstance(own := real[name], AdaLin) and own.has_uninitialized_params() and layer in called:
            own.dim = layer.dim
            shape = [1] * 4
            shape[layer.dim or 0] = layer.alpha.numel()
            with torch.no_grad():
                own(torch.zeros(shape, dtype=layer.alpha.dtype, device=layer.alpha.device))
    with torch.no_grad():
        for layer in layers.values():
            if layer in called:
                layer.alpha.zero_()
    if example.repeats and not _equal(example.outputs, example.run(twin)):
        raise ValueError(
            f"the converted {type(model).__name__} computes something else on the example with alpha = 0: "
            "leave modules out with skip= to find which one it is"
        )
    return RunVerdict(idle, tuple(calls.items()), example.repeats)


def _tensors(output: Any) -> list[Tensor]:
    """The tensors of an output, also of those that keep them as attributes."""
    leaves = tree_leaves(output)
    held = [vars(leaf) for leaf in leaves if hasattr(leaf, "__dict__") and not isinstance(leaf, Tensor | nn.Module)]
    return [leaf.detach().clone() for leaf in (*leaves, *tree_leaves(held)) if isinstance(leaf, Tensor)]


def _equal(one: list[list[Tensor]], other: list[list[Tensor]]) -> bool:
    pairs = [(a, b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=False)]
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)
