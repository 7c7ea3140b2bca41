"""What the hidden layers of a module give while it trains, by hooks."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adalin.structure import Units


class WatchedOutputs:
    """Keeps what hidden layers gave in the last forward pass that can be differentiated.

    Passes for evaluation, without gradients, are not seen.
    """

    def __init__(self, model: nn.Module, layers: Sequence[Units]) -> None:
        self._layers = {layer.name: layer for layer in layers}
        self._kept: dict[str, Tensor] = {}
        self._handles = [
            model.get_submodule(name).register_forward_hook(Keep(self._kept, name)) for name in self._layers
        ]

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        """By the layers' names, (samples, copies, units)."""
        return {name: self._layers[name].outputs(value).detach() for name, value in self._kept.items()}

    def forget(self) -> None:
        """Let go of what is kept."""
        self._kept.clear()

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()


class Keep:
    """A hook that keeps what a module gives. A copy of it keeps nothing: a copied model is not watched."""

    def __init__(self, kept: dict[str, Tensor] | None = None, name: str = "") -> None:
        self._kept, self._name = kept, name

    def __call__(self, module: nn.Module, args: object, output: Any) -> None:
        if self._kept is not None and torch.is_grad_enabled():
            self._kept[self._name] = output.detach()

    def __deepcopy__(self, memo: object) -> "Keep":
        return Keep()

    def __reduce__(self) -> Any:
        return Keep, ()
