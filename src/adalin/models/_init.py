"""First weights of a network, by name."""

from collections.abc import Callable

from torch import nn

from adalin._registry import Registry


def default(model: nn.Module) -> None:
    """Torch's default for each layer: U(-1/sqrt(inputs), 1/sqrt(inputs)) for weights and biases of those used here."""
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()  # type: ignore[operator]


def he_normal(model: nn.Module) -> None:
    """N(0, 2 / inputs) for weights, 0 for biases (He et al. 2015); alphas as by default."""
    default(model)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


INITS: Registry[Callable[[nn.Module], None]] = Registry(
    "init", {"default": default, "he-normal": he_normal}, plugins=False
)
"""By name: what gives a network its first weights, in place, from torch's random state."""
