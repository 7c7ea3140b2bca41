"""How large the weights are, and of what rank: of all parameters but the alphas of activations."""

from collections import defaultdict

from torch import Tensor, nn

from adalin.metrics._network_on_data import NetworkOnData, norm
from adalin.metrics._rank import srank_of
from adalin.metrics._registry import register_metric
from adalin.nn import split_parameters

OURS = "Razavi Rohani et al. 2025"


@register_metric("weight_norm", "L2 norm of all weights and biases, without alphas", paper=OURS, needs={"weights"})
def weight_norm(network: NetworkOnData) -> float:
    """L2 norm of all the network's parameters but the alphas, i.e. of its weights and biases together.

        sqrt(sum_p p^2)

    The scale and shift of normalisation layers and the slope of `nn.PReLU` count, running statistics do not. Alphas are
    left out so that networks with and without them compare. Lyle et al. 2024; Razavi Rohani et al. 2025.
    """
    return norm(weights(network.model).values())


@register_metric("layer_weight_norm", "L2 norm of each layer's weights and biases", paper=OURS, needs={"weights"})
def layer_weight_norm(network: NetworkOnData) -> dict[str, float]:
    """The weight norm of each layer by its name: weight and bias of one module together.

    The squares of the values add up to the square of the weight norm.
    """
    layers: dict[str, list[Tensor]] = defaultdict(list)
    for name, parameter in weights(network.model).items():
        layers[name.rpartition(".")[0]].append(parameter)
    return {name: norm(parameters) for name, parameters in layers.items()}


@register_metric("weight_srank", "effective rank of each weight matrix", paper="Kumar et al. 2021", needs={"weights"})
def weight_srank(network: NetworkOnData) -> list[float]:
    """srank of each weight matrix, in the model's order; kernels are flattened to (out, in * kh * kw).

    Razavi Rohani et al. 2025 speak of "the effective rank of the network's weight matrices" and of "feature rank" in
    one sentence, so both are measured.
    """
    return [srank_of(weight.flatten(1)) for weight in weights(network.model).values() if weight.dim() >= 2]


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A network's weights and biases by name, in the model's order; one that layers share appears once."""
    chosen = {id(weight) for weight in split_parameters(model)[0]}
    return {name: p.detach() for name, p in model.named_parameters() if id(p) in chosen}
