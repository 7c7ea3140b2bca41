"""Benchmarks on data that a test brings, so that none has to be on disk."""

from dataclasses import replace
from typing import Any

import pytest

from adalin import _registry
from adalin.data import Dataset
from adalin.streams import Benchmark, Stream, get_benchmark


def on_data(benchmark: Benchmark, dataset: Dataset, **changes: Any) -> Benchmark:
    """The same benchmark, which brings this data set by itself."""

    def build(_: Dataset | None, **options: Any) -> Stream:
        return benchmark.stream(dataset, **options)

    return replace(benchmark, stream=build, dataset=None, **changes)


def put_in_place(monkeypatch: pytest.MonkeyPatch, benchmark: Benchmark) -> None:
    """While the test lasts, its id stands for this benchmark and no other."""
    (registry,) = (found for found in _registry.registries if found.what == "benchmark")
    assert registry.get(benchmark.id) is get_benchmark(benchmark.name)
    monkeypatch.setitem(registry._entries, benchmark.id, benchmark)
