"""Anybody's module with torch's optimiser, as rules see a network."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adalin.engine._module_net import weights_of
from adalin.engine._watched import WatchedOutputs
from adalin.methods import refusal
from adalin.structure import Network, Part, Units


class AttachedNet(Network):
    """A model while somebody else trains it.

    Args:
        model: the model.
        optimizer: the optimiser that moves its parameters; those that it does not have count as frozen.
        mirrors: models of the same form that follow it.
        gathered: whether outputs are those of all processes.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        mirrors: Sequence[nn.Module] = (),
        *,
        gathered: bool = False,
    ) -> None:
        self.model, self._optimizer, self._gathered = model, optimizer, gathered
        moved = {id(own) for group in optimizer.param_groups for own in group["params"]}
        self._trained = {name: own for name, own in model.named_parameters() if id(own) in moved and own.requires_grad}
        weights = {id(own) for own in weights_of(model)}
        self._are_weights = [id(own) in weights for own in self._trained.values()]
        self.mirrors = [Mirror(mirror) for mirror in mirrors]
        self._layers: Sequence[Units] | None = None
        self._watched: WatchedOutputs | None = None

    @property
    def layers(self) -> Sequence[Units]:
        if self._layers is None:
            raise ValueError("the model has not run yet: nobody knows its units")
        return self._layers

    def take_layers(self, layers: Sequence[Units]) -> None:
        """Know the layers from now on."""
        self._layers = layers

    def watch(self) -> None:
        """See what those layers give whose units can be replaced."""
        self._watched = WatchedOutputs(self.model, [layer for layer in self.layers if not refusal(self, layer)])

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        found = {} if self._watched is None else self._watched.outputs
        for layer in self.layers:
            if layer.name not in found and not refusal(self, layer):
                raise RuntimeError(
                    f"nothing was seen of {layer.name} in this step: call the model itself in each step, and attach to "
                    "it before it is compiled"
                )
        return {name: gather(value) for name, value in found.items()} if self._gathered else found

    def see_now(self) -> None:
        """See the forward pass that has just begun."""
        if self._watched is not None:
            self._watched.see_now()

    def forget(self) -> None:
        """Let go of what was seen in a step."""
        if self._watched is not None:
            self._watched.forget()

    def remove(self) -> None:
        """Take all hooks away."""
        if self._watched is not None:
            self._watched.remove()

    @property
    def parts(self) -> Sequence[Part]:  # type: ignore[override]
        return [
            Part(name, own.detach(), _gradient(own), is_weight)
            for (name, own), is_weight in zip(self._trained.items(), self._are_weights, strict=True)
        ]

    @property
    def params(self) -> Mapping[str, Tensor]:
        return {name: own.detach() for name, own in self._trained.items()}

    def named(self, values: Sequence[Tensor]) -> Mapping[str, Tensor]:
        return dict(zip(self._trained, values, strict=True))

    @property
    def memory(self) -> Mapping[str, Tensor]:  # type: ignore[override]
        return {
            f"{what}.{name}": value
            for name, own in self._trained.items()
            for what, value in self._optimizer.state.get(own, {}).items()
            if isinstance(value, Tensor)
        }


class Mirror(Network):
    """A model that follows another one, such as a target network."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parts = [Part(name, own.detach(), torch.empty(0), True) for name, own in model.named_parameters()]

    def named(self, values: Sequence[Tensor]) -> Mapping[str, Tensor]:
        return dict(zip([part.name for part in self.parts], values, strict=True))


def gather(value: Tensor) -> Tensor:
    """The rows of all processes, in their order."""
    found = [torch.empty_like(value) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(found, value.contiguous())
    return torch.cat(found)


def _gradient(parameter: nn.Parameter) -> Tensor:
    """A parameter's gradient; one without gets zeros, as a term of the loss would give it one."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    grad: Any = parameter.grad
    return grad.detach()
