"""What a multi-layer perceptron consists of, as native kernels know it."""

from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import nn

from adalin.native import ActivationKind
from adalin.nn import (
    GATES,
    MODULES,
    AdaLin,
    CReLU,
    DeepFourier,
    Fixed,
    Interpolation,
    PerNeuron,
    SampleLayerNorm,
    as_base,
    module_base,
    native_form,
)

CONCATENATED = {CReLU: ActivationKind.CRELU, DeepFourier: ActivationKind.FOURIER}


class RefusedError(Exception):
    """A network that is no such perceptron; the message is the end of a sentence."""


@dataclass(frozen=True)
class KernelFunction:
    """An activation's kernel."""

    kind: ActivationKind
    base: str = "IDENTITY"
    gate: str = "none"
    inverse_lipschitz: float = 1.0
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class LinearBlock:
    """A linear layer with what follows it up to the next."""

    linear: nn.Linear
    width: int
    """Outputs of the activation."""
    function: KernelFunction = field(default_factory=lambda: KernelFunction(ActivationKind.OUTPUT))
    norm: nn.LayerNorm | None = None
    activation: nn.Module | None = None

    @property
    def alpha(self) -> nn.Parameter | None:
        """What the activation learns."""
        return self.activation.alpha if isinstance(self.activation, PerNeuron) else None


def blocks_of(model: nn.Module, skip: int = 0) -> list[LinearBlock]:
    """The layers of Flatten, Linear, (LayerNorm, activation or one of them,) ..., Linear.

    Args:
        model: the network.
        skip: number of modules before them.

    Raises:
        RefusedError: the network is another.
    """
    if type(model) is not nn.Sequential:
        raise RefusedError("it is no nn.Sequential")
    modules = flat_modules(model)[skip:]
    if modules and type(modules[0]) is nn.Flatten and (modules[0].start_dim, modules[0].end_dim) == (1, -1):
        del modules[0]
    starts = [index for index, module in enumerate(modules) if isinstance(module, nn.Linear)]
    if not starts or starts[0] != 0 or starts[-1] != len(modules) - 1:
        raise RefusedError("it does not begin and end with a linear layer")
    _check_parameters(model, [modules[index] for index in starts])
    ends = [*starts[1:], len(modules)]
    blocks = [_block(modules[start:end]) for start, end in zip(starts, ends, strict=True)]
    for block, after in pairwise(blocks):
        if block.width != after.linear.in_features:
            raise RefusedError(f"a layer of {after.linear.in_features} inputs follows {block.width} outputs")
    return blocks


def flat_modules(model: nn.Sequential) -> list[nn.Module]:
    """The modules of an nn.Sequential, and in the place of any such among them its own."""
    modules: list[nn.Module] = []
    for module in model:
        modules += flat_modules(module) if type(module) is nn.Sequential else [module]
    return modules


def _check_parameters(model: nn.Module, linears: list[nn.Module]) -> None:
    if any(type(linear) is not nn.Linear or linear.bias is None for linear in linears):
        raise RefusedError("a linear layer is of a class of its own or has no bias")
    if len({id(weight) for linear in linears for weight in linear.parameters()}) < 2 * len(linears):
        raise RefusedError("linear layers share weights")
    if next(model.buffers(), None) is not None:
        raise RefusedError("it has buffers")
    for parameter in model.parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise RefusedError("a width is not known before the first forward")
        if not parameter.requires_grad:
            raise RefusedError("some parameters are frozen")
        known = parameter.device.type in ("cpu", "meta")  # a network without numbers is asked about before a run
        if not known or parameter.dtype not in (torch.float32, torch.float64):
            raise RefusedError(f"its parameters are {parameter.dtype} on {parameter.device}")
    if len({parameter.dtype for parameter in model.parameters()}) > 1:
        raise RefusedError("its parameters are of several types")


def _block(modules: list[nn.Module]) -> LinearBlock:
    linear, *rest = modules
    assert isinstance(linear, nn.Linear)
    norm = rest.pop(0) if rest and type(rest[0]) in (nn.LayerNorm, SampleLayerNorm) else None
    assert norm is None or isinstance(norm, nn.LayerNorm)
    if norm is not None and norm.normalized_shape != (linear.out_features,):
        raise RefusedError("a LayerNorm is over something else than the units")
    if len(rest) > 1:
        raise RefusedError(f"{type(rest[0]).__name__} and {type(rest[1]).__name__} follow a linear layer")
    if not rest:
        if norm is not None:
            return LinearBlock(linear, linear.out_features, KernelFunction(ActivationKind.PLAIN), norm)
        return LinearBlock(linear, linear.out_features)
    (activation,) = rest
    function = function_of(activation, linear.out_features)
    width = linear.out_features * (2 if function.kind in CONCATENATED.values() else 1)
    return LinearBlock(linear, width, function, norm, activation)


def function_of(activation: nn.Module, units: int) -> KernelFunction:
    """The kernel of an activation, or `FOREIGN`.

    Raises:
        RefusedError: it is a user's own, and torch cannot stand in for a kernel.
    """
    along_units = getattr(activation, "dim", 1) in (1, -1)
    if type(activation) in CONCATENATED and along_units:
        return KernelFunction(CONCATENATED[type(activation)])  # type: ignore[index]
    if type(activation) in (AdaLin, Interpolation) and along_units:
        assert isinstance(activation, AdaLin | Interpolation)
        if activation.alpha.numel() not in (1, units):
            raise RefusedError(f"{activation.alpha.numel()} alphas are for {units} units")
        base = activation.base
        gate = activation.computed_gate if isinstance(activation, AdaLin) else GATES.get("none")
        kind = ActivationKind.ADALIN if isinstance(activation, AdaLin) else ActivationKind.INTERPOLATION
    elif type(activation) is Fixed or type(activation) in MODULES:
        base = activation.base if isinstance(activation, Fixed) else module_base(activation)
        gate, kind = GATES.get("none"), ActivationKind.PLAIN
    else:
        _check_own(activation)
        return KernelFunction(ActivationKind.FOREIGN)
    form = native_form(base, gate)
    if form is None:
        return KernelFunction(ActivationKind.FOREIGN)
    own = base.inverse_lipschitz[next(activation.parameters(), torch.empty(0)).dtype]
    return KernelFunction(kind, form[0], form[1], own, form[2])


def _check_own(activation: nn.Module) -> None:
    """A user's own must map each number by itself, the same way every time, and learn nothing."""
    name = type(activation).__name__
    if next(activation.parameters(), None) is not None:
        raise RefusedError(f"{name} has parameters of its own")
    try:
        with torch.random.fork_rng(devices=[]):
            as_base(activation, lipschitz=1.0)
    except (TypeError, ValueError) as error:
        raise RefusedError(f"{name} is not elementwise: {error}") from None
