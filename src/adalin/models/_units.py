"""The hidden layers of the laboratory's own networks: which of their numbers belong to which units."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import nn

from adalin.models._resnet import Block
from adalin.nn import PerNeuron
from adalin.structure import RESIDUAL, Edge, Units

PASSED = (nn.Flatten, nn.MaxPool2d, nn.AdaptiveAvgPool2d)
"""Modules that leave units where they are."""


def hidden_layers(model: nn.Module) -> list[Units]:
    """The hidden layers of an MLP, CNN or ResNet-18, from the inputs on; raises ValueError for any other network."""
    if not isinstance(model, nn.Sequential):
        raise ValueError(f"the hidden layers of a {type(model).__name__} are not known")
    walk = _LayerWalk()
    walk.through(model, "", None)
    return [layer.freeze() for layer in walk.layers]


@dataclass(eq=False)
class _Layer:
    """A hidden layer while it is put together: first what feeds it, then its activation, then what reads it."""

    width: int
    axis: int
    incoming: list[Edge] = field(default_factory=list)
    biases: list[Edge] = field(default_factory=list)
    gains: list[Edge] = field(default_factory=list)
    shifts: list[Edge] = field(default_factory=list)
    alphas: list[Edge] = field(default_factory=list)
    outgoing: list[Edge] = field(default_factory=list)
    means: list[Edge] = field(default_factory=list)
    variances: list[Edge] = field(default_factory=list)
    name: str = ""
    copies: int = 1
    entangled: str = ""

    def join(self, other: "_Layer") -> None:
        """Add what another one is fed by: their sum is what the activation takes."""
        for mine, theirs in ((self.incoming, other.incoming), (self.biases, other.biases)):
            mine.extend(theirs)
        for mine, theirs in ((self.gains, other.gains), (self.shifts, other.shifts)):
            mine.extend(theirs)
        for mine, theirs in ((self.means, other.means), (self.variances, other.variances)):
            mine.extend(theirs)

    def freeze(self) -> Units:
        edges = (self.incoming, self.biases, self.gains, self.shifts, self.alphas, self.outgoing)
        incoming, biases, gains, shifts, alphas, outgoing = map(tuple, edges)
        return Units(
            self.name,
            self.width,
            self.axis,
            incoming,
            biases,
            gains,
            shifts,
            alphas,
            outgoing,
            self.entangled,
            means=tuple(self.means),
            variances=tuple(self.variances),
        )


class _LayerWalk:
    """From a network's inputs to its outputs."""

    def __init__(self) -> None:
        self.layers: list[_Layer] = []
        """Those whose activation has been met."""

    def through(self, module: nn.Module, name: str, layer: _Layer | None) -> _Layer | None:
        """Past a module that takes what a layer gives (None: the inputs); returns the layer that its outputs are."""
        if isinstance(module, nn.Sequential):
            for child, own in module.named_children():
                layer = self.through(own, f"{name}{child}.", layer)
            return layer
        if isinstance(module, Block):
            return self._through_block(module, name, layer)
        if isinstance(module, PASSED):
            return layer
        if isinstance(module, nn.Linear | nn.Conv2d):
            return self._weights(module, name, layer)
        assert layer is not None, "a norm or an activation comes after weights"
        if isinstance(module, nn.BatchNorm2d | nn.LayerNorm | nn.RMSNorm):
            layer.gains.append(Edge(f"{name}weight"))
            if getattr(module, "bias", None) is not None:
                layer.shifts.append(Edge(f"{name}bias"))
            if isinstance(module, nn.BatchNorm2d):
                layer.means.append(Edge(f"{name}running_mean"))
                layer.variances.append(Edge(f"{name}running_var"))
            return layer
        self._activation(module, name, layer)
        return layer

    def _weights(self, module: nn.Linear | nn.Conv2d, name: str, read: _Layer | None) -> _Layer:
        if read is not None:
            repeat = module.weight.shape[1] // (read.copies * read.width)  # places of an image that was flattened
            read.outgoing.append(Edge(f"{name}weight", axis=1, copies=read.copies, repeat=repeat))
        fed = _Layer(module.weight.shape[0], 1 - module.weight.dim(), [Edge(f"{name}weight")])
        if module.bias is not None:
            fed.biases.append(Edge(f"{name}bias"))
        return fed

    def _activation(self, module: nn.Module, name: str, layer: _Layer) -> None:
        layer.name = name.removesuffix(".")
        layer.copies = int(getattr(module, "expansion", 1))
        layer.alphas += [Edge(f"{name}{own}") for own in _alphas(module, layer.width)]
        self.layers.append(layer)

    def _through_block(self, block: Block, name: str, layer: _Layer | None) -> _Layer:
        hidden = layer
        for child in ("conv1", "bn1", "act1", "conv2", "bn2"):
            hidden = self.through(block.get_submodule(child), f"{name}{child}.", hidden)
        assert hidden is not None
        if block.downsample is None:
            assert layer is not None
            layer.entangled = hidden.entangled = RESIDUAL
        else:
            shortcut = self.through(block.downsample, f"{name}downsample.", layer)
            assert shortcut is not None
            hidden.join(shortcut)
        self._activation(block.act2, f"{name}act2.", hidden)
        return hidden


def _alphas(module: nn.Module, width: int) -> Iterator[str]:
    """What an activation learns for each unit; not what a whole layer or network shares."""
    if isinstance(module, PerNeuron):
        for name, alpha in module.named_parameters():
            if alpha.numel() == width > 1:
                yield name
