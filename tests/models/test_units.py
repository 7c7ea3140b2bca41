"""Which numbers of a network belong to which units: shown by what changes the outputs and what does not."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from adalin.engine import ModuleNet
from adalin.methods import Method
from adalin.models import hidden_layers, make_model
from adalin.structure import Edge, Units

SHAPES = {"mlp": (30,), "cnn": (3, 16, 16), "resnet18-narrow": (3, 8, 8)}
METHODS = ["elu", "adalin-tanh", "crelu", "fourier", "adalin-tanh:granularity=layer"]
UNIT = 3


def network(name: str, method: str) -> nn.Module:
    torch.manual_seed(0)
    model = make_model(name, SHAPES[name], 4, Method.parse(method).activation).double()
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms too: gains of 1 and shifts of 0 would hide mistakes.
            parameter.uniform_(-1, 1).mul_(2 / (parameter[0].numel() if parameter.dim() else 1) ** 0.5)
    return model.eval()  # a batch's own statistics would hide shifts


def outputs(model: nn.Module, name: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        return model(torch.randn(6, *SHAPES[name], generator=generator, dtype=torch.float64))


def change(model: nn.Module, edges: Sequence[Edge], layer: Units, how: str) -> None:
    for edge in edges:
        own = edge.of(model.get_parameter(edge.parameter).data, layer.width)[UNIT]
        own.zero_() if how == "zero" else own.add_(torch.randn_like(own))


def own_edges(layer: Units) -> list[tuple[Edge, ...]]:
    return [layer.incoming, layer.biases, layer.gains, layer.shifts, layer.alphas]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", list(SHAPES))
def test_a_unit_that_nobody_reads_can_be_anything_and_one_that_is_read_cannot(name: str, method: str) -> None:
    whole = network(name, method)
    for number in range(len(hidden_layers(whole))):
        for kind in range(5):
            model = deepcopy(whole)
            layer = hidden_layers(model)[number]
            edges = own_edges(layer)[kind]
            if not edges:
                continue
            before = outputs(model, name)
            change(model, edges, layer, "add")
            assert not torch.allclose(outputs(model, name), before, rtol=1e-12, atol=0), (layer.name, edges)
            change(model, layer.outgoing, layer, "zero")
            unread = outputs(model, name)
            change(model, edges, layer, "add")
            is_alone = torch.allclose(outputs(model, name), unread, rtol=1e-9, atol=1e-9)
            assert is_alone or layer.entangled, (layer.name, edges)
            feeds_a_sum = layer.name in ("act1", "layer1.0.act2", "layer2.0.act2", "layer3.0.act2", "layer4.0.act2")
            assert is_alone != (feeds_a_sum and bool(layer.entangled)), (layer.name, edges)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", list(SHAPES))
def test_every_weight_but_those_at_the_ends_feeds_one_layer_and_reads_another(name: str, method: str) -> None:
    model = network(name, method)
    layers = hidden_layers(model)
    weights = [name for name, own in model.named_parameters() if own.dim() > 1]
    fed = [edge.parameter for layer in layers for edge in layer.incoming]
    read = [edge.parameter for layer in layers for edge in layer.outgoing]
    assert sorted(fed) == sorted(weights[:-1])
    assert sorted(read) == sorted(weights[1:])
    modules = dict(model.named_modules())
    assert all(layer.name in modules for layer in layers)


def test_an_image_that_is_flattened_has_several_numbers_per_unit_and_crelu_two_copies() -> None:
    first, second, third = hidden_layers(network("cnn", "crelu"))
    assert first.outgoing == (Edge("3.weight", axis=1, copies=2),)
    assert second.outgoing == (Edge("7.weight", axis=1, copies=2),)
    assert third.outgoing == (Edge("9.weight", axis=1, copies=2),)
    large = make_model("cnn", (3, 32, 32), 4, Method.parse("crelu").activation)
    assert hidden_layers(large)[1].outgoing == (Edge("7.weight", axis=1, copies=2, repeat=25),)


def test_only_layers_in_an_identitys_sum_are_entangled() -> None:
    plain = {layer.name: bool(layer.entangled) for layer in hidden_layers(network("resnet18-narrow", "adalin"))}
    assert len(plain) == 17
    assert not any(plain[name] for name in plain if name.endswith("act1") and "." in name)
    assert all(plain[name] for name in plain if name.endswith("act2") or name == "act1")
    halved = hidden_layers(network("resnet18-narrow", "crelu"))  # whose shortcuts are all convolutions
    assert not any(layer.entangled for layer in halved)


def test_a_net_knows_the_layers_of_its_model_and_says_if_nobody_does() -> None:
    net = ModuleNet(network("mlp", "adalin"))
    assert [layer.name for layer in net.layers] == ["2", "4"]
    assert net.layers[0].alphas == (Edge("2.alpha"),)
    with pytest.raises(ValueError, match=r"^the hidden layers of a Linear are not known$"):
        _ = ModuleNet(nn.Linear(2, 2)).layers
