"""A network's weights and biases: all its parameters but the alphas of its activations."""

from torch import Tensor, nn

from adalin.nn._per_neuron import PerNeuron


def weights(model: nn.Module) -> dict[str, Tensor]:
    """By name, in the model's order; a parameter that layers share appears once."""
    alphas = {id(module.alpha) for module in model.modules() if isinstance(module, PerNeuron)}
    return {name: p.detach() for name, p in model.named_parameters() if id(p) not in alphas}
