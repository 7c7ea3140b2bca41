"""What a test registers is forgotten when it is over."""

import pytest

from adalin.methods import _method
from adalin.metrics import _activations
from adalin.metrics import _registry as metrics
from adalin.models import _build
from adalin.nn import _registry as activations
from adalin.streams import _benchmarks

REGISTRIES = [
    (_benchmarks, "_BENCHMARKS"),
    (_method, "_PARTS"),
    (_build, "_MODELS"),
    (activations, "_REGISTRY"),
    (metrics, "_REGISTRY"),
    (_activations, "_CLASSES"),
]


def forget_later(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in REGISTRIES:
        monkeypatch.setattr(module, name, getattr(module, name).copy())
