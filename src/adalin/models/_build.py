"""A network for a method: by the model's name, with the widths that the method asks for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import torch
from torch import nn

from adalin._registry import Registry, check_entry
from adalin.methods import Activation
from adalin.models._cnn import cnn
from adalin.models._mlp import mlp
from adalin.models._resnet import resnet18

Build = Callable[..., nn.Module]
"""(input shape, outputs, activation, *, hidden) -> network."""


def _mlp(shape: tuple[int, ...], outputs: int, activation: Activation, *, hidden: tuple[int, ...]) -> nn.Module:
    return mlp(torch.Size(shape).numel(), outputs, activation, hidden=hidden)


def _cnn(shape: tuple[int, ...], outputs: int, activation: Activation, *, hidden: tuple[int, ...]) -> nn.Module:
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 16:
        raise ValueError(f"the cnn needs square images of 16 pixels or more, not inputs of shape {shape}")
    channels, size, _ = shape
    return cnn(channels, outputs, activation, hidden=hidden, size=size)


def _resnet18(shape: tuple[int, ...], outputs: int, activation: Activation, *, hidden: tuple[int, ...]) -> nn.Module:
    if len(shape) != 3:
        raise ValueError(f"a resnet18 needs images, not inputs of shape {shape}")
    if activation.match not in (None, "units"):
        # Shortcuts tie its widths together, so there is one way only to make room for two outputs per channel.
        raise ValueError(
            f"a resnet18 with {activation.entry} has half the channels in its blocks already: "
            f"match is 'units' there, not {activation.match!r}"
        )
    (width,) = hidden
    return resnet18(shape[0], outputs, activation, width=width)


@dataclass(frozen=True)
class Model:
    """A registered network."""

    build: Build
    """Builder of the network."""
    hidden: tuple[int, ...]
    """Widths of its hidden layers, which a method may change."""
    summary: str
    """One line about it."""


MODELS: Registry[Model] = Registry("model")
"""Every registered model by name."""


def register_model(name: str, build: Build, *, hidden: tuple[int, ...], summary: str) -> None:
    """Make a network known by name; `build(input_shape, outputs, activation, hidden=...)` returns it."""
    check_entry("a model", build, summary)
    widths_fit = isinstance(hidden, tuple) and all(isinstance(width, int) and width >= 1 for width in hidden)
    if not widths_fit:
        raise ValueError(f"the hidden widths of a model are a tuple of whole numbers >= 1, not {hidden!r}")
    MODELS.register(name, Model(build, hidden, summary))


def models() -> Mapping[str, str]:
    """Every registered model with its one line."""
    return MappingProxyType({name: model.summary for name, model in MODELS.listing().items()})


def check_model(name: str) -> None:
    """Raises ValueError unless there is a model of that name."""
    MODELS.get(name)


@contextmanager
def trial_build() -> Iterator[None]:
    """For a network that is built only to see whether it can be: without memory, on a device that not all can be on."""
    with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        yield


def make_model(name: str, shape: tuple[int, ...], outputs: int, activation: Activation) -> nn.Module:
    """The network, newly initialised from torch's random state."""
    model = MODELS.get(name)
    hidden = model.hidden
    if activation.match not in (None, "units"):
        hidden = _matched_widths(model.build, hidden, shape, outputs, activation)
    return model.build(shape, outputs, activation, hidden=hidden)


@lru_cache
def _matched_widths(
    build: Build, hidden: tuple[int, ...], shape: tuple[int, ...], outputs: int, activation: Activation
) -> tuple[int, ...]:
    """The hidden widths that keep what `activation.match` says as in the baseline."""
    if activation.match == "half":
        return tuple(max(1, width // activation.expansion) for width in hidden)
    scales = (step / 200 for step in range(1, 201))
    widths = {tuple(max(1, round(width * scale)) for width in hidden) for scale in scales}
    with torch.device("meta"):
        target = _size(build(shape, outputs, Activation(), hidden=hidden))
        return min(sorted(widths), key=lambda own: abs(_size(build(shape, outputs, activation, hidden=own)) - target))


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


register_model("mlp", _mlp, hidden=(100, 100), summary="input -> 100 -> 100 -> classes")
register_model("mlp-256", _mlp, hidden=(256, 256), summary="input -> 256 -> 256 -> outputs, as SAC has it")
register_model("cnn", _cnn, hidden=(16, 16, 64), summary="two 5x5 convolutions, a hidden layer of 64 units")
register_model("resnet18", _resnet18, hidden=(64,), summary="ResNet-18 with a 3x3 stem and batch norm")
register_model("resnet18-narrow", _resnet18, hidden=(8,), summary="the ResNet-18 with an eighth of the channels")
