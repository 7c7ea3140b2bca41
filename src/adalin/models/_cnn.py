"""The paper's CNN for 32 x 32 images: two 5 x 5 convolutions with 16 channels, a hidden layer of 64 units."""

from collections.abc import Sequence

from torch import nn

from adalin.methods import Activation


def cnn(
    channels: int, outputs: int, activation: Activation, *, hidden: Sequence[int] = (16, 16, 64), size: int = 32
) -> nn.Sequential:
    """Conv, activation, max-pool, twice; then a hidden layer and the output. 39,796 parameters with ReLU."""
    make, wider = activation.layers(), activation.expansion
    first, second, units = hidden
    side = ((size - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, first, 5),
        make(first),
        nn.MaxPool2d(2),
        nn.Conv2d(first * wider, second, 5),
        make(second),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * wider * side * side, units),
        make(units),
        nn.Linear(units * wider, outputs),
    )
