"""Metrics by name, and what comes out of `measure`."""

import json
import math

import numpy as np
import pytest
import torch

import metrics_oracle
from adalin.metrics import Probe, _registry, measure, metrics, register_metric


@pytest.fixture
def probe():
    return Probe(*metrics_oracle.mlp("adalin-relu", torch.float32))


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(_registry, "_REGISTRY", dict(_registry._REGISTRY))


def test_every_metric_says_what_it_is():
    for name, metric in metrics().items():
        assert metric.name == name
        assert metric.summary
        assert "\n" not in metric.summary


def test_a_row_is_strict_json_in_the_registrys_order(probe):
    row = measure(probe)
    assert list(row) == list(metrics())
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert list(measure(probe, ["weight_norm", "loss"])) == ["loss", "weight_norm"]


def test_per_neuron_values_have_7_significant_digits(probe):
    values = [value for layer in measure(probe)["alpha"] for value in layer]
    assert values == [float(f"{a:.7g}") for module in (1, 3) for a in probe.model[module].alpha.tolist()]


@pytest.mark.usefixtures("registry")
def test_an_own_metric_may_return_tensors_and_numbers_that_json_lacks(probe):
    register_metric("mine", lambda probe: {"a": torch.tensor([1.0, math.inf]), "b": (math.nan, 2, None)}, "my own")
    assert metrics()["mine"].paper == ""
    assert measure(probe, ["mine"]) == {"mine": {"a": [1.0, None], "b": [None, 2, None]}}
    assert list(measure(probe))[-1] == "mine"
    register_metric("numpys", lambda probe: [np.float32(0.1), np.arange(2.0), np.float64("nan")], "NumPy's")
    assert measure(probe, ["numpys"]) == {"numpys": [0.1, [0.0, 1.0], None]}


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"^a metric named 'srank' is registered already$"):
        register_metric("srank", lambda probe: 0.0, "another")


def test_an_unknown_name_gets_a_suggestion(probe):
    with pytest.raises(
        ValueError, match=r"^unknown metric 'sign-entropy' \(did you mean 'sign_entropy'\?\); known: on"
    ):
        measure(probe, ["loss", "sign-entropy"])


def test_the_table_of_metrics_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        metrics()["loss"] = None
