"""Metrics by name."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from adalin.metrics._alpha import alpha
from adalin.metrics._dormant import dormant
from adalin.metrics._gradient_norm import gradient_norm
from adalin.metrics._layer_weight_norm import layer_weight_norm
from adalin.metrics._loss import loss
from adalin.metrics._online_accuracy import online_accuracy
from adalin.metrics._probe import Probe
from adalin.metrics._saturation import saturation
from adalin.metrics._seen_test_accuracy import seen_test_accuracy
from adalin.metrics._sign_entropy import sign_entropy
from adalin.metrics._srank import srank
from adalin.metrics._test_accuracy import test_accuracy
from adalin.metrics._train_accuracy import train_accuracy
from adalin.metrics._weight_norm import weight_norm
from adalin.metrics._weight_srank import weight_srank
from adalin.nn._bases import did_you_mean


@dataclass(frozen=True)
class Metric:
    """An entry of the registry."""

    name: str
    summary: str
    paper: str
    compute: Callable[[Probe], Any]
    """A number, or lists or dicts of numbers, or a tensor or array in place of either; None if it does not apply."""


def register_metric(name: str, compute: Callable[[Probe], Any], summary: str, *, paper: str = "") -> None:
    """Make a metric known by name, so that every task's row has it."""
    if name in _REGISTRY:
        raise ValueError(f"a metric named {name!r} is registered already")
    _REGISTRY[name] = Metric(name, summary, paper, compute)


def metrics() -> Mapping[str, Metric]:
    """Every registered metric by name."""
    return MappingProxyType(_REGISTRY)


def measure(probe: Probe, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The values of all metrics, or of some, as plain JSON values in the registry's order.

    Tensors become numbers and lists with 7 significant digits, about float32's precision. What is not finite becomes
    None, as JSON has no NaN.
    """
    wanted = set(_REGISTRY if names is None else names)
    for name in sorted(wanted - set(_REGISTRY)):
        known = ", ".join(_REGISTRY)
        raise ValueError(f"unknown metric {name!r}{did_you_mean(name, _REGISTRY)}; known: {known}")
    return {name: _plain(metric.compute(probe)) for name, metric in _REGISTRY.items() if name in wanted}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _rounded(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return _plain(float(f"{value:.7g}"))


_REGISTRY: dict[str, Metric] = {}
_OURS = "Razavi Rohani et al. 2025"
register_metric("online_accuracy", online_accuracy, "mean batch accuracy before the update", paper="Kumar et al. 2023")
register_metric("train_accuracy", train_accuracy, "accuracy on the training data at the task's end")
register_metric("test_accuracy", test_accuracy, "accuracy on the test set at the task's end")
register_metric("seen_test_accuracy", seen_test_accuracy, "the same on classes that have been trained")
register_metric("loss", loss, "mean cross-entropy on the training data at the task's end")
register_metric("sign_entropy", sign_entropy, "entropy of the pre-activations' signs, in bits", paper=_OURS)
register_metric("srank", srank, "effective rank of the last hidden layer's features", paper="Kumar et al. 2021")
register_metric("weight_srank", weight_srank, "effective rank of each weight matrix", paper="Kumar et al. 2021")
register_metric("weight_norm", weight_norm, "L2 norm of all weights and biases, without alphas", paper=_OURS)
register_metric("layer_weight_norm", layer_weight_norm, "L2 norm of each layer's weights and biases", paper=_OURS)
register_metric("dormant", dormant, "share of units with next to no output", paper="Sokar et al. 2023")
register_metric("gradient_norm", gradient_norm, "L2 norm of the loss's gradient", paper="Abbas et al. 2023")
register_metric("alpha", alpha, "the learned alphas, per layer and neuron", paper=_OURS)
register_metric("saturation", saturation, "mean gate g(x), per layer and neuron", paper=_OURS)
