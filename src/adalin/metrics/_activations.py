"""Which modules of a network are hidden activations, and the gate that says how saturated one is."""

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor, nn

from adalin.nn import (
    MODULES,
    AdaLin,
    Base,
    Concatenated,
    Fixed,
    Interpolation,
    PerNeuron,
    make_base,
    module_base,
)

_Class = TypeVar("_Class", bound=type[nn.Module])

_CLASSES = (PerNeuron, Concatenated, Fixed, nn.PReLU, *MODULES)


def register_hidden_activation(module_class: _Class) -> _Class:
    """Make metrics look at every module of a class, as `is_activation = True` in the class does; also a decorator.

    If its neurons are not on axis 1, the module says so in `dim`; if it has a method `saturation(x)`, this is its gate.
    """
    if not (isinstance(module_class, type) and issubclass(module_class, nn.Module)):
        raise TypeError(f"a hidden activation is a subclass of nn.Module, not {module_class!r}")
    module_class.is_activation = True  # type: ignore[attr-defined]
    return module_class


def hidden_activations(model: nn.Module) -> dict[str, nn.Module]:
    """The activation modules of a network by name, without those inside another one."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if _is_activation(module) and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    # nn.Identity is the activation of a deep linear network; beside any other it is a place holder.
    others = {name: module for name, module in found.items() if not isinstance(module, nn.Identity)}
    return others or found


def saturation_of(module: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """g(x) of an activation: its own, or the cosine gate of its base; None if it has no base that we know."""
    own = getattr(module, "saturation", None)
    if callable(own):
        return own
    base = _base_of(module)
    return None if base is None else AdaLin(base, 1, init=0.0).saturation


def _is_activation(module: nn.Module) -> bool:
    return isinstance(module, _CLASSES) or getattr(module, "is_activation", False) is True


def _base_of(module: nn.Module) -> Base | None:
    if type(module) in MODULES:  # a subclass may compute something else
        return module_base(module)
    if isinstance(module, nn.PReLU):  # AdaLin on ReLU
        return make_base("relu")
    if isinstance(module, Fixed):
        return module.base
    if isinstance(module, Interpolation) and module.base.arguments is not None:
        return make_base(module.base.name, *module.base.arguments)  # the one it holds has no true L
    return None
