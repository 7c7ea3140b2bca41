"""What the network sees, and that it leaves no trace."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metrics_oracle
from adalin import AdaLin, CReLU, Interpolation, make_activation
from adalin.metrics import NetworkOnData, measure, register_hidden_activation


def assert_same(first, second, tolerance):
    """Equal up to rounding, at any depth."""
    assert type(first) is type(second)
    if isinstance(first, float):
        assert first == pytest.approx(second, rel=tolerance, abs=tolerance)
    elif isinstance(first, dict | list):
        assert len(first) == len(second)
        keys = first if isinstance(first, dict) else range(len(first))
        for key in keys:
            assert_same(first[key], second[key], tolerance)


@pytest.mark.parametrize("activation", ["relu", "adalin-tanh", "crelu"])
@pytest.mark.parametrize("network", [metrics_oracle.mlp, metrics_oracle.cnn])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-7)])
def test_the_chunk_size_does_not_matter(network, activation, dtype, tolerance):
    data = network(activation, dtype)
    rows = [measure(NetworkOnData(*data, test=data[1:], chunk=chunk)) for chunk in (7, 512)]
    assert_same(*rows, tolerance)


def test_the_same_network_gives_the_same_numbers():
    data = metrics_oracle.cnn("adalin-gelu", torch.float32)
    assert measure(NetworkOnData(*data)) == measure(NetworkOnData(*data))


def test_nothing_is_left_behind():
    model = nn.Sequential(
        *(nn.Linear(6, 8), nn.BatchNorm1d(8), AdaLin("tanh", 8), nn.Dropout(0.5)),
        *(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
    )
    model.train()
    model[1].eval()  # a norm that somebody froze
    inputs, labels = torch.randn(40, 6), torch.randint(3, (40,))
    F.cross_entropy(model(inputs), labels).backward()
    before = copy.deepcopy(model)
    grads = [p.grad.clone() for p in model.parameters()]
    state = torch.get_rng_state()

    measure(NetworkOnData(model, inputs, labels, test=(inputs, labels), chunk=7))

    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == [m.training for m in before.modules()]
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    for (name, value), old in zip(model.state_dict().items(), before.state_dict().values(), strict=True):
        assert torch.equal(value, old), name
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        assert torch.equal(parameter.grad, grad)
        assert parameter.requires_grad


def test_dropout_is_off_and_a_network_that_draws_numbers_leaves_the_random_state():
    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    data = torch.randn(20, 4), torch.zeros(20).long()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.9), nn.Linear(8, 2))
    assert torch.allclose(NetworkOnData(model, *data).logits, model.eval()(data[0]))
    state = torch.get_rng_state()
    measure(NetworkOnData(nn.Sequential(Noise(), *model), *data, test=data))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_forward_that_fails_leaves_no_hooks_and_no_eval_mode():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2))
    with pytest.raises(RuntimeError):
        _ = NetworkOnData(model, torch.randn(5, 4), torch.zeros(5).long()).layers
    assert model.training
    assert not model[1]._forward_hooks
    assert not model[1]._forward_pre_hooks


def test_layers_come_in_the_order_of_their_calls_and_every_call_is_one():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.late, self.shared = nn.Tanh(), nn.ReLU(inplace=True)
            self.a, self.b, self.c, self.d = nn.Linear(4, 5), nn.Linear(5, 6), nn.Linear(6, 7), nn.Linear(7, 2)

        def forward(self, x):
            return self.d(self.late(self.c(self.shared(self.b(self.shared(self.a(x)))))))

    net, inputs = Net(), torch.randn(20, 4)
    layers = NetworkOnData(net, inputs, torch.zeros(20).long(), chunk=8).layers
    assert [(layer.name, len(layer.positive)) for layer in layers] == [("shared", 5), ("shared#2", 6), ("late", 7)]
    # Read before the in-place ReLU has overwritten it.
    assert torch.equal(layers[0].positive, (net.a(inputs) > 0).double().mean(0))
    assert torch.allclose(layers[0].saturation, 1 - layers[0].positive)


def test_features_are_those_before_a_layer_that_works_in_place():
    class Doubling(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), Doubling(), nn.Flatten(), nn.Linear(48, 2))
    inputs = torch.randn(10, 1, 6, 6)
    features = NetworkOnData(model, inputs, torch.zeros(10).long(), chunk=4).features
    assert torch.allclose(features, model[0](inputs).relu().flatten(1), atol=1e-6)


def test_the_neurons_are_on_the_modules_own_axis():
    model = nn.Sequential(nn.Linear(4, 6), AdaLin("gelu", 6, dim=-1), nn.Linear(6, 5), CReLU(dim=-1), nn.Flatten())
    inputs = torch.randn(10, 3, 4)
    layers = NetworkOnData(nn.Sequential(*model, nn.Linear(30, 2)), inputs, torch.zeros(10).long(), chunk=4).layers
    assert [(len(layer.positive), len(layer.mean_abs_output)) for layer in layers] == [(6, 6), (5, 10)]
    assert torch.allclose(layers[0].positive, (model[0](inputs) > 0).double().mean((0, 1)))


@pytest.mark.parametrize(
    ("module", "base"),
    [
        (nn.LeakyReLU(0.3), nn.LeakyReLU(0.3)),
        (nn.PReLU(5), "relu"),
        (make_activation("sin"), "sin"),
        (Interpolation("gelu", 5), "gelu"),
        (AdaLin("silu", 5, gate="quadratic"), None),
        (nn.Softplus(beta=2.0), nn.Softplus(beta=2.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_saturation_is_the_gate_of_the_activations_base(module, base):
    model, inputs = nn.Sequential(nn.Linear(4, 5), module, nn.Linear(5, 2)), torch.randn(50, 4)
    gate = (module if base is None else AdaLin(base, 5)).saturation
    (layer,) = NetworkOnData(model, inputs, torch.zeros(50).long()).layers
    assert torch.allclose(layer.saturation, gate(model[0](inputs)).mean(0).double(), atol=1e-6)


def test_an_identity_is_an_activation_only_where_there_is_no_other():
    data = torch.randn(10, 4), torch.zeros(10).long()
    linear = nn.Sequential(nn.Linear(4, 5), make_activation("linear", 5), nn.Linear(5, 2))
    mixed = nn.Sequential(nn.Linear(4, 5), nn.Identity(), nn.ReLU(), nn.Identity(), nn.Linear(5, 2))
    assert [layer.name for layer in NetworkOnData(linear, *data).layers] == ["1"]
    assert [layer.name for layer in NetworkOnData(mixed, *data).layers] == ["2"]


def test_own_activations_are_found_by_attribute_or_registration():
    class Marked(nn.Module):
        is_activation = True

        def __init__(self):
            super().__init__()
            self.inner = nn.ReLU()  # not a hidden layer by itself

        def forward(self, x):
            return self.inner(x) - 1

    @register_hidden_activation
    class Registered(nn.Module):
        def forward(self, x):
            return x**3

        def saturation(self, x):
            return torch.full_like(x, 0.5)

    model = nn.Sequential(nn.Linear(4, 5), Marked(), nn.Linear(5, 6), Registered(), nn.Linear(6, 2))
    first, second = NetworkOnData(model, torch.randn(10, 4), torch.zeros(10).long()).layers
    assert (first.name, first.saturation) == ("1", None)
    assert second.saturation.tolist() == [0.5] * 6


def test_frozen_and_unused_parameters_in_the_gradient():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    model[0].weight.requires_grad_(False)
    model.unused = nn.Parameter(torch.ones(3))
    model.forward = lambda x: model[2](model[1](model[0](x)))
    network = NetworkOnData(model, torch.randn(10, 4), torch.zeros(10).long())
    assert list(network.gradient) == ["unused", "0.bias", "2.weight", "2.bias"]
    assert network.gradient["unused"].tolist() == [0, 0, 0]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert measure(NetworkOnData(model, network.inputs, network.labels), ["gradient_norm"]) == {"gradient_norm": 0.0}


def test_half_precision():
    model, inputs, labels = metrics_oracle.cnn("adalin-relu", torch.bfloat16)
    row = measure(NetworkOnData(model, inputs, labels, test=(inputs, labels), online_accuracy=0.5))
    assert None not in row.values()
    assert_same(
        row,
        measure(
            NetworkOnData(model.float(), inputs.float(), labels, test=(inputs.float(), labels), online_accuracy=0.5)
        ),
        0.2,
    )


def test_a_compiled_network_is_seen_as_the_network_inside():
    model, inputs, labels = metrics_oracle.mlp("relu", torch.float32)
    assert measure(NetworkOnData(torch.compile(model), inputs, labels)) == measure(NetworkOnData(model, inputs, labels))


@torch.no_grad()
def test_what_is_compiled_inside_a_network_is_seen():
    torch._dynamo.reset()
    model, inputs, labels = metrics_oracle.mlp("relu", torch.float32)
    first, *rest = model.eval()
    partly = nn.Sequential(first, torch.compile(nn.Sequential(*rest), backend="eager"))
    in_place = copy.deepcopy(model)
    in_place.compile(backend="eager")
    expected = measure(NetworkOnData(model, inputs, labels), ["sign_entropy", "dormant", "srank"])
    for network in (partly, in_place):
        network(inputs)  # compiled before there are any hooks
        assert measure(NetworkOnData(network, inputs, labels), list(expected)) == expected


@pytest.mark.parametrize("labels", [3, 0])
def test_data_without_their_labels_are_refused(labels):
    with pytest.raises(ValueError, match=f"one label per input and at least one, not {labels and 4} and {labels}"):
        NetworkOnData(nn.Linear(2, 2), torch.zeros(labels and 4, 2), torch.zeros(labels).long())


def test_a_network_without_labels_has_neither_a_test_set_nor_an_accuracy():
    model, inputs, labels = nn.Linear(2, 2), torch.zeros(4, 2), torch.zeros(4).long()
    with pytest.raises(ValueError, match=r"^without labels there is neither a test set nor an accuracy$"):
        NetworkOnData(model, inputs, test=(inputs, labels))
    with pytest.raises(ValueError, match=r"^no labels are known$"):
        _ = NetworkOnData(model, inputs).loss


@pytest.mark.parametrize("wrong", [None, 5, nn.ReLU()])
def test_only_classes_of_modules_are_hidden_activations(wrong):
    with pytest.raises(TypeError, match=r"^a hidden activation is a subclass of nn.Module, not "):
        register_hidden_activation(wrong)


def test_nan_in_a_layer_shows_in_all_its_statistics():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    model[0].bias.data[2] = math.nan
    (layer,) = NetworkOnData(model, torch.randn(10, 4), torch.zeros(10).long()).layers
    assert layer.positive.isnan().all()
    assert layer.saturation.isnan().all()
    assert layer.mean_abs_output.isnan().tolist() == [False, False, True, False, False]


def test_the_test_set_may_be_pixels_and_pass_what_is_faster_than_the_network() -> None:
    model, inputs, labels = nn.Sequential(nn.Linear(4, 3)), torch.randn(9, 4), torch.arange(9) % 3
    pixels, passed = torch.randint(256, (300, 4), dtype=torch.uint8), list[int]()

    def predict(x: torch.Tensor) -> torch.Tensor:
        passed.append(len(x))
        return model(x)

    test = pixels, torch.zeros(300, dtype=torch.int64)
    network = NetworkOnData(model, inputs, labels, test=test, scale=lambda chunk: chunk / 255, predict=predict)
    logits = network.test_logits
    assert logits is not None
    assert torch.allclose(logits, model(pixels / 255))
    assert passed == [256, 44]


def test_the_gradients_pass_gives_the_statistics_that_the_units_own_pass_gives() -> None:
    model, inputs, labels = (
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)),
        torch.randn(9, 4),
        torch.arange(9) % 3,
    )
    with_gradient, without = NetworkOnData(model, inputs, labels, chunk=4), NetworkOnData(model, inputs, chunk=4)
    assert measure(with_gradient)["srank"] == measure(without)["srank"]
    assert measure(with_gradient)["sign_entropy"] == measure(without)["sign_entropy"]
    assert not with_gradient.logits.requires_grad
