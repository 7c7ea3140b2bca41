"""Metrics by name, and what comes out of `measure`."""

import json
import math

import numpy as np
import pytest
import torch

import metrics_oracle
from adalin.metrics import NEEDS, NetworkOnData, measure, metrics, register_metric


@pytest.fixture
def network():
    return NetworkOnData(*metrics_oracle.mlp("adalin-relu", torch.float32))


def test_every_metric_says_what_it_is():
    for name, entry in metrics().items():
        assert entry.name == name
        assert entry.summary
        assert "\n" not in entry.summary


def test_a_row_is_strict_json_in_the_registrys_order(network):
    row = measure(network)
    assert list(row) == list(metrics())
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert list(measure(network, ["weight_norm", "loss"])) == ["loss", "weight_norm"]


def test_per_neuron_values_have_7_significant_digits(network):
    values = [value for layer in measure(network)["alpha"] for value in layer]
    assert values == [float(f"{a:.7g}") for module in (1, 3) for a in network.model[module].alpha.tolist()]


@pytest.mark.usefixtures("forget")
def test_an_own_metric_may_return_tensors_and_numbers_that_json_lacks(network):
    register_metric("mine", "my own")(lambda network: {"a": torch.tensor([1.0, math.inf]), "b": (math.nan, 2, None)})
    assert metrics()["mine"].paper == ""
    assert measure(network, ["mine"]) == {"mine": {"a": [1.0, None], "b": [None, 2, None]}}
    assert list(measure(network))[-1] == "mine"
    register_metric("numpys", "NumPy's")(lambda network: [np.float32(0.1), np.arange(2.0), np.float64("nan")])
    assert measure(network, ["numpys"]) == {"numpys": [0.1, [0.0, 1.0], None]}


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"^a metric named 'srank' is registered already$"):
        register_metric("srank", "another")(nothing)


def test_an_unknown_name_gets_a_suggestion(network):
    with pytest.raises(
        ValueError, match=r"^unknown metric 'sign-entropy' \(did you mean 'sign_entropy'\?\); known: on"
    ):
        measure(network, ["loss", "sign-entropy"])


def test_a_network_without_labels_is_measured_without_what_needs_them(network):
    row = measure(network)
    without = measure(NetworkOnData(network.model, network.inputs))
    assert without == {name: row[name] for name in without}
    assert set(row) - set(without) == {
        *("online_accuracy", "train_accuracy", "test_accuracy", "seen_test_accuracy", "loss", "gradient_norm")
    }
    with pytest.raises(ValueError, match=r"^metric 'loss' needs labels, which are not known here$"):
        measure(NetworkOnData(network.model, network.inputs), ["srank", "loss"])


def test_needs_are_all_that_a_metric_looks_at(network, monkeypatch):
    looked_at = set()

    def watched(name, needs):
        value = getattr(NetworkOnData, name)
        get = value.fget if isinstance(value, property) else value.func

        def look(self):
            looked_at.update(needs)
            return get(self)

        monkeypatch.setattr(NetworkOnData, name, property(look))

    for name, needs in {
        "layers": {"inputs", "units"},
        "features": {"inputs", "units"},
        "logits": {"inputs"},
        "_known_labels": {"labels"},
        "gradient": {"gradient", "labels"},
        "test_logits": {"test"},
    }.items():
        watched(name, needs)
    for name, entry in metrics().items():
        looked_at.clear()
        test = (network.inputs, network.labels)
        entry.compute(NetworkOnData(network.model, network.inputs, network.labels, test=test, online_accuracy=0.5))
        assert looked_at <= entry.needs, name


@pytest.mark.usefixtures("forget")
def test_a_metric_of_ones_own_needs_everything_unless_it_says_less(network):
    register_metric("mine", "my own")(lambda network: 1.0)

    @register_metric("rows", "how many inputs there are", needs={"inputs"})
    def rows(network):
        return len(network.inputs)

    assert metrics()["mine"].needs == NEEDS
    assert metrics()["rows"].compute is rows
    assert "mine" not in measure(NetworkOnData(network.model, network.inputs))
    assert measure(NetworkOnData(network.model, network.inputs))["rows"] == 30


def nothing(network):
    return None


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("task", "x", nothing), "^a metric cannot be named 'task': rows have a field of that name$"),
        (("seed", "x", nothing), "^a metric cannot be named 'seed': rows have a field of that name$"),
        (("=cmd()", "x", nothing), r"^a metric's name is made of letters, .*: not '=cmd\(\)'$"),
        (("a\nb", "x", nothing), "^a metric's name is made of letters, .*: not 'a\\\\nb'$"),
        ((None, "x", nothing), "^a metric's name is made of letters, .*: not None$"),
        (("mine", "x", None), "^a metric needs a callable that makes it, not None$"),
        (("mine", None, nothing), "^a metric needs a summary of one line, not None$"),
        (("mine", "a\nb", nothing), "^a metric needs a summary of one line, not 'a\\\\nb'$"),
    ],
)
def test_nonsense_is_refused_when_it_is_registered(arguments, expected):
    before = list(metrics())
    name, summary, compute = arguments
    with pytest.raises(ValueError, match=expected) as error:
        register_metric(name, summary)(compute)
    assert "\n" not in str(error.value)
    assert list(metrics()) == before


@pytest.mark.parametrize("needs", [{"label"}, "labels"])
def test_needs_that_nobody_knows_are_refused(needs):
    with pytest.raises(ValueError, match=r"^the needs of a metric are a set of gradient, inputs, .*, not "):
        register_metric("mine", "x", needs=needs)(nothing)


def test_the_table_of_metrics_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        metrics()["loss"] = None
