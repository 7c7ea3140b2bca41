"""The paper's MLP: input -> 100 -> 100 -> classes, the activation under study after both hidden layers."""

from collections.abc import Sequence

from torch import nn

from adalin.methods import Activation


def mlp(inputs: int, outputs: int, activation: Activation, *, hidden: Sequence[int] = (100, 100)) -> nn.Sequential:
    """Flattens its input; torch's default initialisation."""
    make, width = activation.layers(), inputs
    layers: list[nn.Module] = [nn.Flatten()]
    for units in hidden:
        layers += [nn.Linear(width, units), make(units)]
        width = units * activation.expansion
    return nn.Sequential(*layers, nn.Linear(width, outputs))
