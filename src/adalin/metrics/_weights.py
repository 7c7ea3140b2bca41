"""A network's weights and biases: all its parameters but the alphas of its activations."""

from torch import Tensor, nn

from adalin.nn._param_groups import split_parameters


def weights(model: nn.Module) -> dict[str, Tensor]:
    """By name, in the model's order; a parameter that layers share appears once."""
    chosen = {id(weight) for weight in split_parameters(model)[0]}
    return {name: p.detach() for name, p in model.named_parameters() if id(p) in chosen}
