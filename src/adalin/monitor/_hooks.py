"""Hooks that leave no trace: none in copies and pickles, none after the monitor is gone."""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_INSTANCE = "__reduce_ex__"


class Hook:
    """Calls a method of an object as long as that object lives."""

    __slots__ = ("__weakref__", "_first", "_method", "_owner")

    def __init__(self, owner: object, method: str, *first: Any) -> None:
        self._owner, self._method, self._first = weakref.ref(owner), method, first

    def __call__(self, *arguments: Any) -> None:
        if torch.compiler.is_compiling():
            return
        owner = self._owner()
        if owner is not None:
            getattr(owner, self._method)(*self._first, *arguments)


class ForwardHook:
    """A forward pre-hook with keyword arguments that copies and pickles of the module do not carry."""

    def __init__(self, module: nn.Module, hook: Hook) -> None:
        self._module = weakref.ref(module)
        self._handle = module.register_forward_pre_hook(hook, with_kwargs=True)
        # deepcopy and pickle ask an instance for this before its class.
        module.__dict__[_INSTANCE] = _Reduce(module)

    def remove(self) -> None:
        """Take the hook away."""
        self._handle.remove()
        module = self._module()
        if module is not None:
            module.__dict__.pop(_INSTANCE, None)


class _Reduce:
    """What pickle and deepcopy get of a module: its state without our hooks."""

    def __init__(self, module: nn.Module) -> None:
        self._module = weakref.ref(module)

    def __call__(self, protocol: Any) -> Any:
        module = self._module()
        assert module is not None
        parts = list(type(module).__reduce_ex__(module, protocol))
        if len(parts) > 2 and isinstance(parts[2], dict):
            state = {key: value for key, value in parts[2].items() if key != _INSTANCE}
            hooks = state.get("_forward_pre_hooks", {})
            ours = [key for key, hook in hooks.items() if isinstance(hook, Hook)]
            for name in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
                if name in state:
                    state[name] = OrderedDict((k, v) for k, v in state[name].items() if k not in ours)
            parts[2] = state
        return tuple(parts)


class StepCounter:
    """All that runs in every step: one addition and one comparison."""

    __slots__ = ("__weakref__", "_when_due", "due", "steps")

    def __init__(self, when_due: Callable[[], None]) -> None:
        self.steps = self.due = 0
        self._when_due = when_due

    def __call__(self, *arguments: Any) -> None:
        self.steps += 1
        if self.steps >= self.due:
            self._when_due()
