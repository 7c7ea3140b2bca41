"""Fresh weights for the same network: what the aged ones are compared with."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

RESETS = ("reset_parameters", "_reset_parameters")
"""Methods of torch's modules that draw their parameters anew."""


@dataclass(frozen=True, eq=False)
class State:
    """Parameters and buffers of a network, as copies."""

    parameters: dict[str, Tensor]
    """Parameters by name."""
    buffers: dict[str, Tensor]
    """Buffers by name."""

    @classmethod
    def of(cls, model: nn.Module) -> "State":
        """What a network holds now."""
        return cls(
            {name: p.detach().clone() for name, p in model.named_parameters()},
            {name: b.detach().clone() for name, b in model.named_buffers()},
        )

    def load(self, model: nn.Module) -> nn.Module:
        """Put it into a network of the same shape."""
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.parameters[name])
            for name, buffer in model.named_buffers():
                if name in self.buffers:
                    buffer.copy_(self.buffers[name])
        return model


class _DetachedCopies(TorchFunctionMode):
    """Copies of tensors that a model keeps from its last forward, which cannot be copied with their graph."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.__deepcopy__ and not args[0].is_leaf:
            return args[0].detach().clone()
        return function(*args, **(kwargs or {}))


def copy_of(model: nn.Module) -> Any:
    """A deep copy of a model."""
    with _DetachedCopies():
        return copy.deepcopy(model)


class Twins:
    """Draws fresh twins of a network.

    Three ways, the surest first: a function that builds new networks; the first weights with their rows and columns
    permuted, which are as good as new for every initialiser that treats units alike; and the `reset_parameters` of the
    modules.

    Args:
        model: the network.
        fresh: builds a new network of the same kind.
        first: what the network held when it was new, if that is known.
    """

    def __init__(
        self, model: nn.Module, fresh: Callable[[], nn.Module] | None = None, first: State | None = None
    ) -> None:
        self._model, self._fresh, self._first = model, fresh, first
        now = {name: parameter.shape for name, parameter in model.named_parameters()}
        if fresh is None and first is not None and {n: p.shape for n, p in first.parameters.items()} != now:
            self._first = None  # the network has been changed since
        self.origin = "built by fresh()" if fresh else "its first weights, permuted"
        """Where the twins come from, for people."""
        if fresh is None and self._first is None:
            self.origin = "its modules' reset_parameters"
            missing = [
                name or type(module).__name__
                for name, module in model.named_modules()
                if list(module.parameters(recurse=False)) and not _can_reset(module)
            ]
            if missing:
                some = ", ".join(missing[:3])
                raise ValueError(
                    f"no fresh weights are known for {some}: give fresh=, a function that builds the model"
                )

    def draw(self, generator: torch.Generator) -> nn.Module:
        """A fresh twin; the global random state is the caller's to keep."""
        if self._fresh is not None:
            twin = self._fresh()
            shapes = {name: p.shape for name, p in self._model.named_parameters()}
            if {name: p.shape for name, p in twin.named_parameters()} != shapes:
                raise ValueError("fresh() builds a network with other parameters than the model's")
            return State.of(twin).load(copy_of(self._model))
        twin = copy_of(self._model)
        if self._first is not None:
            parameters = {name: _permuted(p, generator) for name, p in self._first.parameters.items()}
            return State(parameters, self._first.buffers).load(twin)
        for module in twin.modules():
            for name in RESETS:
                if callable(reset := getattr(module, name, None)):
                    reset()
        return twin


def _can_reset(module: nn.Module) -> bool:
    return any(callable(getattr(module, name, None)) for name in RESETS)


def _permuted(parameter: Tensor, generator: torch.Generator) -> Tensor:
    for axis in range(min(parameter.dim(), 2)):
        order = torch.randperm(parameter.shape[axis], generator=generator)
        parameter = parameter.index_select(axis, order.to(parameter.device))
    return parameter.clone()
