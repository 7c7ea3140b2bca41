"""Every metric against its formula, written out again in numpy; and at the ends of its range."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import metrics_oracle
from adalin import AdaLin
from adalin.metrics import NetworkOnData, effective_rank_of, measure
from adalin.metrics._rank import srank_of
from metrics_oracle import Oracle


@pytest.fixture(params=[(n, a) for n in ("mlp", "cnn") for a in metrics_oracle.NAMES], ids="-".join)
def pair(request):
    network, activation = request.param
    model, inputs, labels = getattr(metrics_oracle, network)(activation)
    return NetworkOnData(model, inputs, labels, chunk=7), Oracle(activation, model, inputs, labels)


def relu_net(weight, inputs):
    """One hidden ReLU layer with that weight and no bias."""
    model = nn.Sequential(nn.Linear(*weight.T.shape, bias=False), nn.ReLU(), nn.Linear(len(weight), 2))
    model[0].weight.data = weight
    return NetworkOnData(model, inputs, torch.zeros(len(inputs), dtype=torch.long))


def one(network, name):
    return measure(network, [name])[name]


def test_loss_and_accuracy(pair):
    network, oracle = pair
    correct = [int(np.argmax(z)) == int(y) for z, y in zip(oracle.run()[1], oracle.labels, strict=True)]
    assert one(network, "loss") == pytest.approx(oracle.loss)
    assert one(network, "train_accuracy") == pytest.approx(sum(correct) / 30)


def test_test_accuracy_is_that_of_the_test_set(pair):
    network, oracle = pair
    assert one(network, "test_accuracy") is None
    right = torch.as_tensor(oracle.run()[1].argmax(1))
    wrong = torch.where(torch.arange(30) < 12, (right + 1) % 3, right)
    again = NetworkOnData(
        network.model, torch.zeros_like(network.inputs), network.labels, test=(network.inputs, wrong), chunk=7
    )
    assert one(again, "test_accuracy") == pytest.approx(18 / 30)


def test_seen_test_accuracy_is_that_of_classes_in_the_training_data(pair):
    network, oracle = pair
    assert one(network, "seen_test_accuracy") is None
    answers, labels = torch.as_tensor(oracle.run()[1].argmax(1)), torch.arange(30) % 3
    test, seen = (network.inputs, labels), labels != 1
    again = NetworkOnData(network.model, network.inputs[:2], torch.tensor([2, 0]), test=test, chunk=7)
    among_seen = torch.as_tensor(oracle.run()[1])[:, [0, 2]].argmax(1) * 2
    assert one(again, "seen_test_accuracy") == pytest.approx((among_seen == labels)[seen].double().mean().item())
    assert one(again, "test_accuracy") == pytest.approx((answers == labels).double().mean().item())
    everything = NetworkOnData(network.model, network.inputs[:3], torch.tensor([0, 1, 2]), test=test)
    assert one(everything, "seen_test_accuracy") == one(everything, "test_accuracy")


def test_online_accuracy_is_what_training_counted(pair):
    network, _ = pair
    assert one(network, "online_accuracy") is None
    assert (
        one(NetworkOnData(network.model, network.inputs, network.labels, online_accuracy=0.625), "online_accuracy")
        == 0.625
    )


def test_sign_entropy(pair):
    network, oracle = pair
    entropies = []
    for before, _, _ in oracle.hidden:
        for neuron in before:
            p = sum(float(v) > 0 for v in neuron) / len(neuron)
            entropies.append(-sum(q * math.log2(q) for q in (p, 1 - p) if q > 0))
    assert one(network, "sign_entropy") == pytest.approx(sum(entropies) / len(entropies))


def test_dormant(pair):
    network, oracle = pair
    with torch.no_grad():
        network.model[0].weight[0] *= 1e-3  # a quiet unit
        network.model[0].bias[0] = 0
    oracle.__post_init__()
    dormant, units = 0, 0
    for _, _, outputs in oracle.hidden:
        means = [float(np.mean(np.abs(unit))) for unit in outputs]
        dormant += sum(mean / (sum(means) / len(means)) <= 0.025 for mean in means)
        units += len(means)
    assert one(network, "dormant") == pytest.approx(dormant / units)
    assert dormant >= (1 if oracle.name != "fourier" else 0)  # cos of next to nothing is 1


def test_saturation(pair):
    network, oracle = pair
    if oracle.hidden[0][1] is None:
        assert one(network, "saturation") is None
        assert all(layer.saturation is None for layer in network.layers)
    else:
        for layer, (_, gate, _) in zip(one(network, "saturation"), oracle.hidden, strict=True):
            assert layer == pytest.approx(gate.mean(1).tolist(), rel=1e-6, abs=1e-7)


def test_alpha(pair):
    network, oracle = pair
    alphas = [values.tolist() for name, values in oracle.parameters.items() if name.endswith("alpha")]
    if alphas:
        assert [pytest.approx(layer, rel=1e-6) for layer in alphas] == one(network, "alpha")
    else:
        assert one(network, "alpha") is None


def test_srank(pair):
    network, oracle = pair
    assert one(network, "srank") == srank_by_svd(oracle.features.reshape(30, -1))


def test_weight_srank(pair):
    network, oracle = pair
    matrices = [w.reshape(len(w), -1) for name, w in oracle.parameters.items() if name.endswith("weight")]
    assert one(network, "weight_srank") == [srank_by_svd(matrix) for matrix in matrices]


def test_weight_norms_leave_alpha_out(pair):
    network, oracle = pair
    squares = {}
    for name, values in oracle.parameters.items():
        if not name.endswith("alpha"):
            layer = name.split(".")[0]
            squares[layer] = squares.get(layer, 0.0) + sum(float(v) ** 2 for v in values.flat)
    assert one(network, "layer_weight_norm") == {layer: pytest.approx(math.sqrt(s)) for layer, s in squares.items()}
    assert one(network, "weight_norm") == pytest.approx(math.sqrt(sum(squares.values())))


# With the others the gate moves with x, and differences do not see its stop-gradient.
@pytest.mark.parametrize("activation", ["relu", "tanh", "crelu", "adalin-relu", "interpolation"])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_gradient_and_its_norm(network, activation):
    model, inputs, labels = getattr(metrics_oracle, network)(activation)
    network, oracle = NetworkOnData(model, inputs, labels, chunk=7), Oracle(activation, model, inputs, labels)
    expected = oracle.gradient()
    assert list(network.gradient) == list(expected)
    for name, gradient in network.gradient.items():
        np.testing.assert_allclose(gradient.numpy(), expected[name], atol=1e-8)
    squares = sum(float((gradient**2).sum()) for gradient in expected.values())
    assert one(network, "gradient_norm") == pytest.approx(math.sqrt(squares), rel=1e-6)


def srank_by_svd(matrix):
    sigma = np.linalg.svd(matrix, compute_uv=False)
    return next(k for k in range(1, len(sigma) + 1) if sigma[:k].sum() >= 0.99 * sigma.sum())


def test_sign_entropy_is_0_for_units_with_one_sign_and_1_for_half_and_half():
    inputs = torch.tensor([[1.0, 2.0], [1.0, -2.0]])
    assert one(relu_net(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), inputs), "sign_entropy") == 0
    assert one(relu_net(torch.tensor([[0.0, 1.0], [0.0, -3.0]]), inputs), "sign_entropy") == 1
    assert one(relu_net(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), inputs), "sign_entropy") == 0.5


def test_a_dead_layer_is_all_dormant_saturated_and_of_rank_0():
    network = relu_net(-torch.rand(8, 4), torch.rand(20, 4))
    names = ["dormant", "saturation", "srank", "sign_entropy"]
    assert measure(network, names) == {"sign_entropy": 0, "srank": 0, "dormant": 1, "saturation": [[1.0] * 8]}


def test_features_that_are_multiples_of_one_vector_have_rank_1():
    weight = torch.rand(8, 1) @ torch.rand(1, 4)
    assert one(relu_net(weight, torch.rand(20, 4)), "srank") == 1
    assert one(relu_net(weight, torch.rand(20, 4)), "weight_srank")[0] == 1


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_srank_counts_99_of_100_equal_singular_values(scale):
    assert srank_of(scale * torch.eye(100, dtype=torch.float64)) == 99
    for shape in [(300, 100), (100, 300)] * 10:
        rotation = nn.init.orthogonal_(torch.empty(shape))  # equal but for rounding in float32
        assert srank_of(scale * rotation.double()) == 99


def test_srank_of_fewer_data_than_features():
    network = relu_net(torch.rand(50, 20), torch.rand(6, 20))
    assert one(network, "srank") == srank_by_svd(network.features.double().numpy())
    assert network.features.shape == (6, 50)


def test_one_alpha_per_layer_and_one_that_the_network_shares():
    def network(*alphas):
        first, second = (AdaLin("relu", 1, alpha=alpha) for alpha in alphas)
        return nn.Sequential(nn.Linear(4, 8), first, nn.Linear(8, 8), second, nn.Linear(8, 2))

    data = torch.randn(10, 4), torch.zeros(10).long()
    a, b = nn.Parameter(torch.tensor([0.25])), nn.Parameter(torch.tensor([-0.5]))
    assert one(NetworkOnData(network(a, b), *data), "alpha") == [[0.25], [-0.5]]
    shared = NetworkOnData(network(a, a), *data)
    assert one(shared, "alpha") == [[0.25]]
    unchanged = one(shared, "weight_norm")
    a.data += 100
    assert one(shared, "weight_norm") == unchanged


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("activation", ["relu", "tanh", "adalin-gelu", "crelu", "linear"])
def test_a_network_that_has_diverged_gives_none_and_no_error(broken, activation):
    model, inputs, labels = metrics_oracle.mlp(activation, torch.float32)
    with torch.no_grad():
        model[0].weight[0, 0] = broken
        model[2].weight[0, 0] = broken
    row = measure(NetworkOnData(model, inputs, labels))
    assert row["weight_norm"] is None
    assert row["weight_srank"][0] is None
    if activation != "tanh" or math.isnan(broken):  # tanh bounds an infinite pre-activation
        assert row["loss"] is None
        assert row["srank"] is None
    if math.isnan(broken):
        assert row["sign_entropy"] is None
        assert row["dormant"] is None


def test_a_network_without_hidden_activations_has_no_metrics_of_them():
    row = measure(NetworkOnData(nn.Linear(4, 2), torch.randn(9, 4), torch.zeros(9).long()))
    for name in ("sign_entropy", "srank", "dormant", "alpha", "saturation"):
        assert row[name] is None
    assert len(row["weight_srank"]) == 1
    assert list(row["layer_weight_norm"]) == [""]


def test_the_effective_rank_is_the_exponential_of_the_singular_values_entropy():
    matrix = torch.randn(20, 6)
    sigma = torch.linalg.svdvals(matrix.double())
    p = sigma / sigma.sum()
    assert effective_rank_of(matrix) == pytest.approx(math.exp(-(p * p.log()).sum()))
    assert effective_rank_of(torch.eye(5)) == pytest.approx(5)
    assert effective_rank_of(torch.zeros(3, 4)) == 0
    assert math.isnan(effective_rank_of(torch.full((2, 2), math.inf)))
