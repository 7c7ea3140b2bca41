"""The paper's networks: how large they are with each method, and how wide."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from adalin.methods import Method, methods
from adalin.models import INITS, make_model, models, register_model
from adalin.models._mlp import mlp

SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}
CLASSES = {"mlp": 10, "cnn": 100}


def make(model: str, method: str) -> nn.Module:
    return make_model(model, SHAPES[model], CLASSES[model], Method.parse(method).activation)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def widths(model: nn.Module) -> list[tuple[int, int]]:
    """(inputs, outputs) of each layer with weights."""
    return [(layer.weight.shape[1], layer.weight.shape[0]) for layer in model if hasattr(layer, "weight")]


@pytest.mark.parametrize(
    ("model", "method", "parameters"),
    [
        ("mlp", "baseline", 89_610),
        ("mlp", "tanh", 89_610),
        ("mlp", "linear", 89_610),
        ("mlp", "adalin", 89_810),
        ("mlp", "adalin-gelu", 89_810),
        ("mlp", "prelu", 89_810),
        ("mlp", "adalin:granularity=layer", 89_612),
        ("mlp", "adalin:granularity=network", 89_611),
        ("mlp", "crelu", 100_610),
        ("mlp", "fourier", 100_610),
        ("cnn", "baseline", 39_796),
        ("cnn", "adalin", 39_892),
        ("cnn", "adalin:granularity=layer", 39_799),
        ("cnn", "adalin:granularity=network", 39_797),
    ],
)
def test_a_network_has_as_many_parameters_as_the_paper_counts(model: str, method: str, parameters: int) -> None:
    assert size(make(model, method)) == parameters


def test_the_mlp_takes_colour_images_too() -> None:
    activation = Method.parse("baseline").activation
    assert size(make_model("mlp", (3, 32, 32), 10, activation)) == 3072 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10


@pytest.mark.parametrize("method", ["crelu", "fourier"])
@pytest.mark.parametrize(
    ("model", "match", "expected"),
    [
        ("mlp", "units", [(784, 100), (200, 100), (200, 10)]),
        ("mlp", "half", [(784, 50), (100, 50), (100, 10)]),
        ("cnn", "units", [(3, 16), (32, 16), (800, 64), (128, 100)]),
        ("cnn", "half", [(3, 8), (16, 8), (400, 32), (64, 100)]),
    ],
)
def test_two_outputs_per_neuron_double_the_next_layers_inputs(
    model: str, match: str, expected: list[tuple[int, int]], method: str
) -> None:
    assert widths(make(model, f"{method}:match={match}")) == expected


@pytest.mark.parametrize("method", ["crelu", "fourier"])
def test_match_params_comes_as_close_to_the_baselines_size_as_it_can(method: str) -> None:
    network = make("mlp", f"{method}:match=params")
    assert widths(network) == [(784, 91), (182, 91), (182, 10)]

    def distance(units: int) -> int:
        return abs(785 * units + (2 * units + 1) * units + (2 * units + 1) * 10 - 89_610)

    assert distance(91) == abs(size(network) - 89_610) == min(distance(units) for units in range(1, 101))
    # Convolutions and hidden units shrink together.
    assert widths(make("cnn", f"{method}:match=params")) == [(3, 11), (22, 11), (550, 44), (88, 100)]


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize(("granularity", "distinct"), [("neuron", None), ("layer", None), ("network", 1)])
def test_alphas_belong_to_neurons_layers_or_the_network(model: str, granularity: str, distinct: int | None) -> None:
    network = make(model, f"adalin-tanh:granularity={granularity}")
    alphas = [layer.alpha for layer in network if hasattr(layer, "alpha")]
    hidden = [16, 16, 64] if model == "cnn" else [100, 100]
    assert [alpha.numel() for alpha in alphas] == (hidden if granularity == "neuron" else [1] * len(hidden))
    assert len({id(alpha) for alpha in alphas}) == (distinct or len(hidden))


def test_two_networks_never_share_an_alpha() -> None:
    one, other = (make("mlp", "adalin:granularity=network") for _ in range(2))
    assert not {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()}


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_the_activation_comes_after_every_hidden_layer_and_not_after_the_output(model: str) -> None:
    layers = [type(layer).__name__ for layer in make(model, "adalin")]
    hidden = [after for before, after in pairwise(layers) if before in ("Linear", "Conv2d")]
    assert set(hidden) == {"AdaLin"}
    assert layers[-1] == "Linear"


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_weights_come_from_torchs_default_initialisation(model: str) -> None:
    torch.manual_seed(5)
    ours = make(model, "baseline")
    torch.manual_seed(5)
    for layer in ours:
        if hasattr(layer, "weight"):
            again = type(layer)(*layer_arguments(layer))
            assert torch.equal(layer.weight, again.weight)
            assert torch.equal(layer.bias, again.bias)


def layer_arguments(layer: nn.Module) -> tuple[int, ...]:
    if isinstance(layer, nn.Conv2d):
        return layer.in_channels, layer.out_channels, layer.kernel_size[0]
    return layer.in_features, layer.out_features


@pytest.mark.parametrize("match", ["units", "params", "half"])
def test_matching_widths_draws_no_random_numbers(match: str) -> None:
    torch.manual_seed(7)
    network = make("mlp", f"crelu:match={match}")
    torch.manual_seed(7)
    inputs, units = widths(network)[0]
    assert torch.equal(network[1].weight, nn.Linear(inputs, units).weight)


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_he_normal_weights_are_drawn_anew_and_nothing_is_left_of_the_default(model: str) -> None:
    network = make(model, "adalin")
    INITS.get("he-normal")(network)
    for layer in network:
        if hasattr(layer, "weight"):
            spread = (2 / layer.weight[0].numel()) ** 0.5
            assert layer.weight.std().item() == pytest.approx(spread, rel=0.1)
            assert layer.weight.abs().max().item() > 2.2 * spread  # a uniform one would end at 1.7
            assert not layer.bias.any()
        if hasattr(layer, "alpha"):
            assert 0 <= min(layer.alpha.tolist()) < max(layer.alpha.tolist()) < 1


@pytest.mark.parametrize("init", list(INITS))
def test_an_initialisation_depends_on_the_random_state_only(init: str) -> None:
    one, other = make("mlp", "adalin"), make("mlp", "adalin")
    for network in (one, other):
        torch.manual_seed(3)
        INITS.get(init)(network)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


# by name


@pytest.mark.usefixtures("forget")
def test_a_model_of_ones_own_is_built_for_every_method() -> None:
    def deep(shape: tuple[int, ...], outputs: int, activation: object, *, hidden: tuple[int, ...]) -> nn.Module:
        return mlp(torch.Size(shape).numel(), outputs, activation, hidden=hidden)

    register_model("deep", deep, hidden=(8, 8, 8), summary="three hidden layers")
    assert models()["deep"] == "three hidden layers"
    for method in methods():
        network = make_model("deep", (4,), 2, Method.parse(method).activation)
        assert network(torch.zeros(3, 4)).shape == (3, 2)
    halved = make_model("deep", (4,), 2, Method.parse("crelu:match=half").activation)
    assert widths(halved) == [(4, 4), (8, 4), (8, 4), (8, 2)]


@pytest.mark.usefixtures("forget")
def test_a_second_model_of_the_same_name_is_refused() -> None:
    build: Callable[..., nn.Module] = lambda *args, **kwargs: nn.Linear(1, 1)  # noqa: E731
    with pytest.raises(ValueError, match=r"^a model named 'mlp' is registered already$"):
        register_model("mlp", build, hidden=(), summary="x")


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"name": "a/b"}, "a model's name is made of letters, digits, "),
        ({"name": 5}, "a model's name is made of letters, digits, "),
        ({"build": None}, "a model needs a callable that makes it, not None"),
        ({"hidden": 3}, "the hidden widths of a model are a tuple of whole numbers >= 1, not 3"),
        ({"hidden": (3, 1.5)}, "the hidden widths of a model are a tuple of whole numbers >= 1, not (3, 1.5)"),
        ({"hidden": (0,)}, "the hidden widths of a model are a tuple of whole numbers >= 1, not (0,)"),
        ({"summary": None}, "a model needs a summary of one line, not None"),
    ],
)
def test_nonsense_is_refused_when_it_is_registered(changed: dict[str, Any], expected: str) -> None:
    arguments = {"name": "own", "build": mlp, "hidden": (3,), "summary": "mine"} | changed
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}") as error:
        register_model(arguments.pop("name"), arguments.pop("build"), **arguments)
    assert "\n" not in str(error.value)
    assert "own" not in models()


def test_an_unknown_model_is_told_in_one_line_with_what_is_close() -> None:
    told = r"^unknown model 'cnns' \(did you mean 'cnn'\?\); known: mlp, mlp-256, cnn, resnet18, resnet18-narrow; "
    with pytest.raises(ValueError, match=told):
        make_model("cnns", (1, 28, 28), 10, Method().activation)


@pytest.mark.parametrize("shape", [(784,), (3, 15, 15), (3, 32, 28)])
def test_the_cnn_says_in_one_line_which_images_it_needs(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^the cnn needs square images of 16 pixels or more, not inputs of shape \("):
        make_model("cnn", shape, 10, Method().activation)


def test_the_cnn_takes_images_of_any_size_that_it_does_not_refuse() -> None:
    for pixels in (16, 17, 28, 33):
        network = make_model("cnn", (1, pixels, pixels), 10, Method().activation)
        assert network(torch.zeros(2, 1, pixels, pixels)).shape == (2, 10)
