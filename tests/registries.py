"""What a test registers is forgotten when it is over."""

import pytest

import adalin.models  # noqa: F401, so that every registry is there
from adalin import _registry
from adalin.metrics import _activations


def forget_later(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in _registry.registries:
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "version", registry.version)
    monkeypatch.setattr(_activations, "_CLASSES", _activations._CLASSES.copy())


def forget_all(what: str) -> None:
    """Empty a registry, after `forget_later`."""
    for registry in _registry.registries:
        if registry.what == what:
            registry._entries.clear()
