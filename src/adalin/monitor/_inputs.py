"""A few hundred of a model's own inputs, whatever its forward takes, and what it gives for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

OUTPUTS = 256
"""Outputs per input that are looked at; of more, evenly spaced ones."""


class Call(NamedTuple):
    """One call of a model, or of that part of it which training calls."""

    entry: str
    """Path of the module that was called; empty for the model itself."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def size(self) -> int | None:
        """Number of inputs, if all tensors agree in it; numbers on their own are none."""
        sizes = {len(tensor) for tensor in _tensors((self.args, dict(self.kwargs))) if tensor.dim()}
        return sizes.pop() if len(sizes) == 1 else None

    def of(self, model: nn.Module) -> Any:
        """Make the call on a model or a copy of it."""
        return model.get_submodule(self.entry)(*self.args, **self.kwargs)

    def pick(self, rows: Tensor) -> "Call":
        """The same with some of its inputs."""
        return self.map(lambda tensor: tensor[rows.to(tensor.device)] if tensor.dim() else tensor)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Call":
        """The same with other tensors."""

        def of(value: Any) -> Any:
            return change(value) if isinstance(value, Tensor) else value

        args, kwargs = tree_map(of, (self.args, dict(self.kwargs)))
        return Call(self.entry, args, kwargs)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def call_of(inputs: Any) -> Call:
    """The call that inputs stand for: one tensor, a tuple of arguments, or a mapping of keyword arguments."""
    if isinstance(inputs, Call):
        return inputs
    if isinstance(inputs, Mapping):
        call = Call("", (), inputs)
    else:
        call = Call("", tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), {})
    tensors = _tensors((call.args, dict(call.kwargs)))
    if not tensors:
        kind = type(inputs).__name__
        raise ValueError(
            f"inputs hold no tensor ({kind}): give a batch as the model takes it, a tuple or a dict of them"
        )
    if any(tensor.dim() and len(tensor) == 0 for tensor in tensors):
        raise ValueError("inputs are empty: give a batch of at least one, better 128")
    return call


def kept(call: Call, samples: int) -> Call:
    """A copy of a call that training does not change, with at most so many inputs, evenly spaced."""
    call = call.map(lambda tensor: tensor.detach())
    if call.size is not None and call.size > samples:
        call = call.pick(torch.arange(samples) * call.size // samples)
    return call.map(lambda tensor: tensor.clone())


def merged(calls: Sequence[Call]) -> list[Call]:
    """Calls in as few as their shapes allow."""
    groups: dict[Any, list[Call]] = {}
    for call in calls:
        leaves, form = tree_flatten((call.args, dict(call.kwargs)))
        same = tuple(
            (tuple(leaf.shape[1:]), leaf.dtype) if isinstance(leaf, Tensor) else repr(leaf)[:200] for leaf in leaves
        )
        alone = call.size is None and id(call)
        groups.setdefault((call.entry, str(form), same, alone), []).append(call)
    return [_one(group) for group in groups.values()]


def _one(calls: Sequence[Call]) -> Call:
    if len(calls) == 1:
        return calls[0]
    columns = [tree_flatten((call.args, dict(call.kwargs)))[0] for call in calls]
    form = tree_flatten((calls[0].args, dict(calls[0].kwargs)))[1]
    leaves = [
        torch.cat([column[i] for column in columns])
        if isinstance(columns[0][i], Tensor) and columns[0][i].dim()
        else columns[0][i]
        for i in range(len(columns[0]))
    ]
    args, kwargs = tree_unflatten(leaves, form)
    return Call(calls[0].entry, args, kwargs)


def outputs_of(value: Any) -> Tensor:
    """(inputs, outputs): all floating numbers that a model gives per input, at most `OUTPUTS` of them."""
    value = value.to_tuple() if hasattr(value, "to_tuple") else value
    if hasattr(value, "mean") and hasattr(value, "stddev") and not isinstance(value, Tensor):
        value = (value.mean, value.stddev)  # a distribution
    tensors = [tensor for tensor in _tensors(value) if tensor.is_floating_point() and tensor.dim()]
    if not tensors:
        raise ValueError(f"the model gives no floating tensor that could be fitted, but {type(value).__name__}")
    size = len(tensors[0])
    flat = torch.cat([t.reshape(size, -1).float() for t in tensors if len(t) == size], 1)
    if flat.shape[1] > OUTPUTS:
        flat = flat[:, torch.arange(OUTPUTS, device=flat.device) * flat.shape[1] // OUTPUTS]
    return flat
