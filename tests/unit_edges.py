"""What edges of units promise: permuting all of them, and replacing a unit of a layer that is not entangled."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from adalin.structure import Edge, Units
from adalin.structure._flow import tensors_in


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


def all_edges(layer: Units) -> list[Edge]:
    values = [getattr(layer, field.name) for field in fields(layer)]
    return [edge for value in values if isinstance(value, tuple) for edge in value]


def randomize(model: nn.Module) -> None:
    """Numbers that hide no mistake: gains that are not 1, shifts that are not 0."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in tensors_of(model).items():
            if not tensor.is_floating_point():
                continue
            noise = torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype)
            if "running_var" in name:
                tensor.copy_(noise + 0.5)
            else:
                tensor.add_((noise - 0.5) * (1 if tensor.dim() < 2 else tensor.abs().mean()))


def outputs_of(run: Callable[[nn.Module], Any], model: nn.Module) -> list[Tensor]:
    torch.manual_seed(3)
    with torch.no_grad():
        return [t.clone() for t in tensors_in(run(model)) if t.is_floating_point()]


def difference(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    pairs = list(zip(ones, others, strict=True))
    return max(((a - b).abs().max() / (a.abs().max() + 1e-9)).item() for a, b in pairs if a.numel())


def permute(model: nn.Module, layer: Units, edges: Sequence[Edge]) -> None:
    generator = torch.Generator().manual_seed(layer.width)
    size = layer.width // layer.groups
    order = torch.cat([torch.randperm(size, generator=generator) + k * size for k in range(layer.groups)])
    tensors = tensors_of(model)
    with torch.no_grad():
        for edge in edges:
            own = edge.of(tensors[edge.parameter], layer.width)
            own.copy_(own[order].clone())


def check_permutations(model: nn.Module, layers: Sequence[Units], run: Callable[[nn.Module], Any]) -> list[str]:
    """Permutes each layer's units; returns the names of the layers whose units may change places."""
    before = outputs_of(run, model)
    checked = []
    for layer in layers:
        if layer.groups == layer.width:
            continue
        state = {name: tensor.clone() for name, tensor in tensors_of(model).items()}
        permute(model, layer, all_edges(layer))
        found = difference(before, outputs_of(run, model))
        assert found < 1e-4, (layer, found)
        restore(model, state)
        for edge in set(all_edges(layer)) - set(layer.others):
            permute(model, layer, [edge])
            alone = difference(before, outputs_of(run, model))
            restore(model, state)
            known_to_be_free = edge.parameter.endswith("num_batches_tracked")
            assert alone > 0 or known_to_be_free, (layer.name, edge, "takes no part")
        checked.append(layer.name)
    return checked


def check_replacements(model: nn.Module, layers: Sequence[Units], run: Callable[[nn.Module], Any]) -> list[str]:
    """A unit that no weights read may be anything; returns the names of the layers that are not entangled."""
    checked = []
    for layer in layers:
        if layer.entangled:
            continue
        state = {name: tensor.clone() for name, tensor in tensors_of(model).items()}
        tensors = tensors_of(model)
        unit = layer.width // 2
        with torch.no_grad():
            for edge in layer.outgoing:
                edge.of(tensors[edge.parameter], layer.width)[unit] = 0.0
            unread = outputs_of(run, model)
            for edge in (*layer.incoming, *layer.biases, *layer.gains, *layer.shifts, *layer.alphas):
                own = edge.of(tensors[edge.parameter], layer.width)[unit]
                own.add_(torch.rand_like(own) / 10)
        found = difference(unread, outputs_of(run, model))
        assert found < 1e-4, (layer, found)
        restore(model, state)
        checked.append(layer.name)
    return checked


def restore(model: nn.Module, state: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in tensors_of(model).items():
            tensor.copy_(state[name])
