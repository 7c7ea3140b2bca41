"""Calls of activations in code whose source nobody has: they are caught while the code runs.

A function call passes torch's function mode, which looks at the frames to find out which call it is; a call of a module
that stands in several places asks in the same way. That costs microseconds a call, and such a forward is not compiled.
"""

import functools
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.overrides import TorchFunctionMode

from adalin.nn import FUNCTIONS

Way = tuple[tuple[types.CodeType, int], ...]
"""The functions and the instructions in them that lead to a call, outermost first."""

Ways = Mapping[Way, tuple[str, ...]]
"""Layers of each way, in the order in which one run comes by."""

_running = threading.local()


class Redirection(TorchFunctionMode):
    """While it is entered, the calls of one module's own code go to its layers."""

    def __init__(self, module: nn.Module, ways: "Ways", codes: frozenset[types.CodeType]) -> None:
        super().__init__()
        self.module = module
        self.ways = ways
        self.codes = codes
        self.times: Counter[Way] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        layer = self.layer(sys._getframe(1)) if func in FUNCTIONS else None
        if layer is None:
            return func(*args, **(kwargs or {}))
        return layer(args[0] if args else (kwargs or {})["input"])

    def layer(self, frame: types.FrameType | None) -> nn.Module | None:
        """The layer that a call of the module's own code means; None for calls of others and for those that stay."""
        way: list[tuple[types.CodeType, int]] = []
        while frame is not None and frame.f_code is not _CALL:
            if frame.f_code in self.codes:
                way.insert(0, (frame.f_code, frame.f_lasti))
            frame = frame.f_back
        layers = self.ways.get(tuple(way))
        if layers is None:
            return None
        nth = self.times[tuple(way)]
        self.times[tuple(way)] += 1
        if nth >= len(layers):
            raise RuntimeError(
                f"{type(self.module).__name__} calls an activation more than {len(layers)} times, as often as when it "
                "was converted: use AdaLin layers in its code"
            )
        return self.module.get_submodule(layers[nth]) if layers[nth] else None


_CALL = nn.Module._call_impl.__code__


class Switch:
    """What a module that stands in several places does when it is called: it asks which of the layers is meant."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = getattr(_running, "stack", [])
        layer = stack[-1].layer(sys._getframe(1)) if stack else None
        return (self.module if layer is None else layer)._call_impl(*args, **kwargs)


def redirected(
    holder: Callable[..., Any],
    ways: Ways,
    codes: frozenset[types.CodeType],
    switches: tuple[str, ...],
) -> Callable[..., Any]:
    """A method whose own calls go to layers."""

    @functools.wraps(holder)
    def method(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        stack = _running.__dict__.setdefault("stack", [])
        if stack and stack[-1].module is self and stack[-1].ways == ways:
            return holder(self, *args, **kwargs)
        for path in switches:
            module = self.get_submodule(path)
            vars(module)["_compiled_call_impl"] = Switch(module)
        redirection = Redirection(self, ways, codes)
        stack.append(redirection)
        compiler = set_eval_frame(None)
        try:
            with redirection:
                return holder(self, *args, **kwargs)
        finally:
            set_eval_frame(compiler)
            stack.pop()

    method._torchdynamo_disable = True  # type: ignore[attr-defined]  # frames are not what they were in compiled code
    return method
