"""Runs that train in a moment, and what comes of them to the bit."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import adalin.data
from adalin.data import Dataset, load
from adalin.streams import get_benchmark
from adalin.studies import BUDGETS
from adalin.training import Run, RunFolder, _api, _run
from adalin.training._execute import engine_settings
from adalin.training._train import train_runs

SETTINGS: dict[str, dict[str, Any]] = {
    "random-label-mnist": {"images": 40, "epochs": 3, "tasks": 2},
    "permuted-mnist": {"images": 40, "epochs": 2, "tasks": 2},
    "random-label-cifar10": {"images": 40, "epochs": 3, "tasks": 2},
    "shuffled-label-cifar10": {"images": 40, "epochs": 2, "tasks": 2},
    "class-split-cifar100": {"images": 25, "epochs": 2, "tasks": 2},
    "class-incremental-cifar100": {"images": 10, "steps": 3, "batch_size": 6, "tasks": 2, "model": "resnet18-narrow"},
}
BENCHMARKS = list(SETTINGS)

Outcome = dict[str, Any]
"""Digests of the rows and of the last checkpoint's tensors, and the checkpoint's position."""


def random_data(name: str, shape: tuple[int, ...], classes: int, per_class: int) -> Dataset:
    """Noise, balanced, with two test images per class."""
    generator = torch.Generator().manual_seed(0)

    def part(count: int) -> tuple[Tensor, Tensor]:
        images = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
        return images, torch.arange(count) % classes

    return Dataset(
        name, "noise", False, *part(classes * per_class), *part(classes * 2), classes, sha256=f"{name} noise"
    )


@cache
def data_of(benchmark: str) -> Dataset:
    """The bundled digits, or noise where there is a test set, which should be small."""
    if benchmark == "random-label-mnist":
        return load("mnist")
    name = get_benchmark(benchmark).dataset
    assert name is not None
    shape, classes, per_class = {
        "mnist": ((1, 28, 28), 10, 20),
        "cifar10": ((3, 32, 32), 10, 20),
        "cifar100": ((3, 32, 32), 100, 5),
    }[name]
    return random_data(name, shape, classes, per_class)


def define(benchmark: str, method: str, seed: int = 0, **settings: Any) -> Run:
    return Run.define(benchmark, method, seed, data_of(benchmark), **SETTINGS[benchmark] | settings)


def train(runs: Sequence[Run], out: Path, dataset: Dataset | None = None, **options: Any) -> dict[Run, Outcome]:
    """Train runs of one benchmark together, from wherever their folders are."""
    pairs = [(run, RunFolder(out / run.folder)) for run in runs]
    with engine_settings(), ExitStack() as locks:
        for run, folder in pairs:
            locks.enter_context(folder.lock())
            folder.create_or_check(run.config(), {"tasks": run.tasks})
        train_runs(pairs, dataset or data_of(runs[0].benchmark.removesuffix("-v1")), **options)
    return {run: outcome(folder.path) for run, folder in pairs}


def after_epochs(count: int) -> dict[str, Any]:
    """Options of `train` that stop one stack after so many epochs."""
    seen: list[str] = []
    return {
        "report": lambda event, run, details: seen.append(event),
        "stop": lambda: seen.count("steps") >= count,
    }


def outcome(folder: Path) -> Outcome:
    checkpoint = RunFolder(folder).load(lambda message: None)
    rows = (folder / "rows.jsonl").read_bytes() if (folder / "rows.jsonl").exists() else b""
    result: Outcome = {f"row {number}": digest(row) for number, row in enumerate(rows.splitlines(keepends=True))}
    if checkpoint is not None:
        result |= {name: tensor_digest(tensor) for name, tensor in checkpoint.tensors.items()}
        result["position"] = checkpoint.position
    return result


def tensor_digest(tensor: Tensor) -> tuple[str, tuple[int, ...], str]:
    return str(tensor.dtype), tuple(tensor.shape), digest(tensor.numpy().tobytes())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


NOISE = {"mnist": "permuted-mnist", "cifar10": "random-label-cifar10", "cifar100": "class-split-cifar100"}
TINY_BUDGET = {
    benchmark: {"tasks": 2, "epochs": 1, "images": settings["images"]} for benchmark, settings in SETTINGS.items()
}


def noise_for_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever data set is loaded in this process, in whatever way, is tiny noise."""
    for module in (adalin.data, _api, _run):
        monkeypatch.setattr(module, "load", lambda name, folder=None: data_of(NOISE[name]))


def tiny_budget(monkeypatch: pytest.MonkeyPatch, tasks: int = 2) -> None:
    """The quick budget of recipes becomes one of moments."""
    for benchmark, settings in TINY_BUDGET.items():
        monkeypatch.setitem(BUDGETS["quick"], benchmark, {**settings, "tasks": tasks})
