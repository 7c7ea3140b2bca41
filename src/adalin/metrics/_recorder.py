"""Per-neuron statistics of the hidden layers, gathered by hooks while the data passes in chunks."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from adalin.metrics._activations import hidden_activations, saturation_of


@dataclass(frozen=True, eq=False)
class Layer:
    """One hidden layer on the task's training data. In a convolution a neuron is a channel, averaged over positions.

    A layer that gives NaN for any input has NaN in all its statistics.
    """

    name: str
    """The activation module's name; its second call in one forward is a layer of its own, `name#2`."""
    module: nn.Module
    """The activation module."""
    positive: Tensor
    """Share of pre-activations above 0, (units,)."""
    mean_abs_output: Tensor
    """Mean |output|, (outputs,); CReLU and DeepFourier have two outputs per unit."""
    saturation: Tensor | None
    """Mean of the gate g(x), (units,), or None where the activation has no gate that we know."""


@dataclass
class _Sums:
    module: nn.Module
    gate: Callable[[Tensor], Tensor] | None
    count: int = 0
    positive: Tensor | float = 0.0
    outputs: Tensor | float = 0.0
    saturation: Tensor | float = 0.0

    def layer(self, name: str) -> Layer:
        outputs = torch.as_tensor(self.outputs) / self.count
        # NaN > 0 is False, so a broken layer would look like a quiet one.
        count = float("nan") if outputs.isnan().any() else self.count
        saturation = None if self.gate is None else torch.as_tensor(self.saturation) / count
        return Layer(name, self.module, torch.as_tensor(self.positive) / count, outputs, saturation)


@dataclass
class Recorder:
    """While entered, adds up what every hidden activation of `model` sees and gives."""

    model: nn.Module
    forward: Callable[[Tensor], Tensor]
    """Function that computes the model's outputs, and calls its activations."""
    last: Tensor | None = None
    """The latest output of a hidden activation."""
    _sums: dict[str, _Sums] = field(default_factory=dict)  # in the order of the first calls
    _calls: Counter[str] = field(default_factory=Counter)
    _handles: list[Any] = field(default_factory=list)

    def __enter__(self) -> "Recorder":
        for name, module in hidden_activations(self.model).items():
            # The input is read before the call: an activation that works in place overwrites it.
            self._handles.append(module.register_forward_pre_hook(self._before(name)))
            self._handles.append(module.register_forward_hook(self._after(name)))
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def __call__(self, inputs: Tensor) -> Tensor:
        """The network's output for one chunk."""
        self._calls.clear()
        return self.forward(inputs)

    def layers(self) -> list[Layer]:
        return [sums.layer(name) for name, sums in self._sums.items()]

    def _before(self, name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        @torch.no_grad()
        def hook(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            self._calls[name] += 1
            key = self._key(name)
            if key not in self._sums:
                self._sums[key] = _Sums(module, saturation_of(module))
            sums, x = self._sums[key], arguments[0]
            sums.count += x.numel() // x.shape[_axis(module)]
            sums.positive += _per_neuron(x > 0, module)
            if sums.gate is not None:
                sums.saturation += _per_neuron(sums.gate(x), module)

        return hook

    def _after(self, name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        @torch.no_grad()
        def hook(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
            self._sums[self._key(name)].outputs += _per_neuron(output.detach().abs(), module)
            self.last = output.detach().clone()  # the next layer may work in place

        return hook

    def _key(self, name: str) -> str:
        return name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"


def _axis(module: nn.Module) -> int:
    dim = getattr(module, "dim", None)
    return dim if isinstance(dim, int) else 1


def _per_neuron(x: Tensor, module: nn.Module) -> Tensor:
    """The sum over all axes but that of the neurons; chunks add up in float64."""
    others = [axis for axis in range(x.dim()) if axis != _axis(module) % x.dim()]
    return x.to(torch.promote_types(x.dtype, torch.float32)).sum(others).double()
