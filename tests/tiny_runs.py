"""Runs that train in a moment, and what comes of them to the bit."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import adalin.data
from adalin.data import Dataset, load
from adalin.executors import engine_settings
from adalin.runs import Run, RunFolder, Session, kinds
from adalin.settings import SupervisedSettings
from adalin.streams import get_benchmark
from adalin.supervised import _kind
from notes import Notes

SETTINGS: dict[str, dict[str, Any]] = {
    "random-label-mnist": {"images": 40, "epochs": 3, "tasks": 2},
    "permuted-mnist": {"images": 40, "epochs": 2, "tasks": 2},
    "random-label-cifar10": {"images": 40, "epochs": 3, "tasks": 2},
    "shuffled-label-cifar10": {"images": 40, "epochs": 2, "tasks": 2},
    "class-split-cifar100": {"images": 25, "epochs": 2, "tasks": 2},
    "class-incremental-cifar100": {"images": 10, "steps": 3, "batch_size": 6, "tasks": 2, "model": "resnet18-narrow"},
}
BENCHMARKS = list(SETTINGS)

StreamRun = Run[SupervisedSettings]
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


@contextmanager
def loaded(dataset: Dataset) -> Iterator[None]:
    """Whatever data set a run of this process asks for, it gets this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kind, "load", lambda name, folder=None: dataset)
        yield


def define(benchmark: str, method: str, seed: int = 0, *, dataset: Dataset | None = None, **settings: Any) -> StreamRun:
    """A run of a moment, with the benchmark's settings in place of those that are None."""
    with loaded(dataset or data_of(benchmark)):
        kind = kinds.get("supervised")
        (run,) = kind.define(benchmark, [method], [seed], **SETTINGS.get(benchmark, {}) | settings).runs
    return run


def train(
    runs: Sequence[StreamRun], out: Path, dataset: Dataset | None = None, **options: Any
) -> dict[StreamRun, Outcome]:
    """Train runs of one benchmark one after the other, from wherever their folders are."""
    with engine_settings(), loaded(dataset or data_of(runs[0].description.benchmark)):
        for run in runs:
            kinds.get("supervised").train(run, Session(out=out, **options))
    return {run: outcome(out / run.folder) for run in runs}


def after_steps(count: int) -> dict[str, Any]:
    """Options of `train` that stop a run after so many steps, if nothing makes several at once."""
    notes = Notes()
    return {"emit": notes, "stop": lambda: sum(notes.steps("progress")) >= count}


def after_epochs(count: int) -> dict[str, Any]:
    """Options of `train` that stop a run after so many epochs."""
    notes = Notes()

    def stop() -> bool:
        made = notes.of("progress")
        if count == 0 or not made:
            return count == 0
        settings = made[0].run.settings
        return sum(event.steps for event in made) >= count * -(-settings.images // settings.batch_size)

    return {"emit": notes, "stop": stop}


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
    for module in (adalin.data, _kind):
        monkeypatch.setattr(module, "load", lambda name, folder=None: data_of(NOISE[name]))


def tiny_budget(monkeypatch: pytest.MonkeyPatch, tasks: int = 2) -> None:
    """The quick budget of recipes becomes one of moments."""
    from adalin.studies import BUDGETS

    for benchmark, settings in TINY_BUDGET.items():
        monkeypatch.setitem(BUDGETS["quick"], benchmark, {**settings, "tasks": tasks})
