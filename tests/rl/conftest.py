"""What tests of SAC ask for by name: double precision, where nothing hides behind rounding, and runs of a moment."""

import os
from collections.abc import Iterator

import pytest
import torch

from adalin.rl import _loop
from rl.tiny_sac import make_small


@pytest.fixture
def _double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch, forget: None) -> None:
    monkeypatch.setattr(_loop, "CHUNK", _loop.CHUNK)  # is put back
    make_small()


@pytest.fixture
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
