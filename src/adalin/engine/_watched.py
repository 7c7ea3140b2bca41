"""What the hidden layers of a module give while it trains."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adalin.structure import ActivationCall, Units, watch_activations


class WatchedOutputs:
    """Keeps what hidden layers gave in the last forward pass that can be differentiated.

    Passes for evaluation, without gradients, are not seen. An activation that is a module has a hook; where a forward
    calls a function, the calls of the whole model are watched.
    """

    def __init__(self, model: nn.Module, layers: Sequence[Units]) -> None:
        self._layers = {layer.name: layer for layer in layers}
        self._kept: dict[str, Tensor] = {}
        modules = dict(model.named_modules())
        functions = [name for name in self._layers if name not in modules]
        self._functions = KeepAll(self._kept, functions)
        self._handles: list[Any] = [
            modules[name].register_forward_hook(Keep(self._kept, name)) for name in self._layers if name in modules
        ]
        self._model = model
        if functions:
            self._handles.append(model.register_forward_pre_hook(self._functions.enter))
            self._handles.append(model.register_forward_hook(self._functions.leave, always_call=True))

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        """By the layers' names, (samples, copies, units)."""
        return {name: self._layers[name].outputs(value) for name, value in self._kept.items()}

    def see_now(self) -> None:
        """See the forward pass that has just begun."""
        self._functions.enter(self._model, ())

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


class KeepAll:
    """Hooks around a model's forward, which keep what some functions in it give. Its copies keep nothing."""

    def __init__(self, kept: dict[str, Tensor] | None = None, names: Sequence[str] = ()) -> None:
        self._kept, self._names = kept, frozenset(names)
        self._watching: list[Any] = []

    def enter(self, module: nn.Module, args: object) -> None:
        """Before the forward."""
        if self._kept is not None and self._names and torch.is_grad_enabled() and not self._watching:
            watch = watch_activations(module, self._see)
            watch.__enter__()
            self._watching.append(watch)

    def leave(self, module: nn.Module, args: object, output: object) -> None:
        """After it, or when it has failed."""
        if self._watching:
            self._watching.pop().__exit__(None, None, None)

    def _see(self, call: ActivationCall, given: Tensor, output: Tensor) -> None:
        if self._kept is not None and call.name in self._names:
            self._kept[call.name] = output.detach()

    def __deepcopy__(self, memo: object) -> "KeepAll":
        return KeepAll()

    def __reduce__(self) -> Any:
        return KeepAll, ()
