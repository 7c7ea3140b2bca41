"""The convolutions before a perceptron, as native kernels know them."""

from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from adalin.engine._perceptron import CONCATENATED, KernelFunction, RefusedError, flat_modules, function_of
from adalin.native import ActivationKind
from adalin.nn import PerNeuron


@dataclass(frozen=True)
class ConvBlock:
    """A convolution, an activation and max-pooling over 2 x 2 pixels."""

    conv: nn.Conv2d
    activation: nn.Module
    function: KernelFunction

    @property
    def width(self) -> int:
        """Channels after the activation."""
        return self.conv.out_channels * (2 if self.function.kind in CONCATENATED.values() else 1)

    @property
    def alpha(self) -> nn.Parameter | None:
        """What the kernel of the activation learns."""
        return self.activation.alpha if isinstance(self.activation, PerNeuron) else None


MODULES_EACH = 3
"""Modules of a block."""


def convolutions_of(model: nn.Module) -> list[ConvBlock]:
    """The blocks at the beginning of an nn.Sequential; none where it has no convolution.

    Raises:
        RefusedError: native kernels do not know them.
    """
    modules = flat_modules(model) if type(model) is nn.Sequential else []
    count = sum(isinstance(module, nn.Conv2d) for module in modules)
    blocks = [_block(modules[MODULES_EACH * index :][:MODULES_EACH]) for index in range(count)]
    if len({id(block.conv.weight) for block in blocks}) < count:
        raise RefusedError("convolutions share weights")
    for block, after in pairwise(blocks):
        if block.width != after.conv.in_channels:
            raise RefusedError(f"a convolution of {after.conv.in_channels} channels follows {block.width}")
    return blocks


def _block(modules: list[nn.Module]) -> ConvBlock:
    kinds = [type(module) for module in modules]
    if len(modules) < MODULES_EACH or kinds[0] is not nn.Conv2d or kinds[2] is not nn.MaxPool2d:
        raise RefusedError("its convolutions are not each followed by an activation and by max-pooling")
    conv, activation, pool = modules
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(pool, nn.MaxPool2d)
    if not _is_plain(conv):
        raise RefusedError("a convolution has a stride, padding, dilation, groups, no bias or no square kernel")
    window = {_pair(pool.kernel_size), _pair(pool.stride)}
    if window != {(2, 2)} or _pair(pool.padding) != (0, 0) or _pair(pool.dilation) != (1, 1):
        raise RefusedError("a max-pooling is not over 2 x 2 pixels")
    if pool.ceil_mode or pool.return_indices:
        raise RefusedError("a max-pooling has options of its own")
    function = function_of(activation, conv.out_channels)
    if function.kind == ActivationKind.FOREIGN or getattr(activation, "dim", 1) != 1:
        raise RefusedError(f"{type(activation).__name__} after a convolution has no native kernel")
    return ConvBlock(conv, activation, function)


def _is_plain(conv: nn.Conv2d) -> bool:
    height, width = conv.kernel_size
    options = conv.stride, conv.padding, conv.dilation, conv.groups
    return height == width and options == ((1, 1), (0, 0), (1, 1), 1) and conv.bias is not None


def _pair(value: object) -> object:
    return value if isinstance(value, tuple) else (value, value)
