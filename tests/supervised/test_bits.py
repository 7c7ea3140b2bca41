"""A run's numbers are its own: the same to the bit alone, in any stack, in any order, in any process."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adalin import run
from adalin.data import Dataset
from adalin.models import MODELS
from method_texts import METHODS
from tiny_runs import BENCHMARKS, Outcome, StreamRun, define, outcome, random_data, train

SOME = ["baseline", "adalin", "adalin-gelu", "adalin:granularity=network", "l2", "shrink-perturb", "scratch", "crelu"]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def assert_same_alone(runs: list[StreamRun], out: Path, dataset: Dataset | None = None) -> None:
    together = train(runs, out / "together", dataset)
    for one in runs:
        assert len([name for name in together[one] if name.startswith("row")]) == one.tasks
        assert train([one], out / "alone", dataset)[one] == together[one], one


# Batches of 5 and 7 leave the last one, of 3 and 1 images, to other code. The same 43 images have a Gram matrix,
# permuted ones do not.
@pytest.mark.parametrize(("benchmark", "batch_size"), [("random-label-mnist", 5), ("permuted-mnist", 7)])
def test_every_method_gives_the_same_bits_alone_and_in_a_stack(benchmark: str, batch_size: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"batch_size": batch_size, "images": 43, "epochs": 2}
    assert_same_alone([define(benchmark, method, **settings) for method in METHODS], tmp_path)


@pytest.mark.parametrize(("methods", "batch_size", "classes"), [(METHODS, 3, 7), (SOME, 1, 7), (SOME, 5, 37)])
def test_layers_of_odd_sizes_give_the_same_bits_alone_and_in_a_stack(
    methods: list[str], batch_size: int, classes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS._entries, "mlp", replace(MODELS.get("mlp"), hidden=(13, 7)))
    dataset = random_data("mnist", (1, 5, 5), classes, per_class=5)
    settings: dict[str, Any] = {"images": 32, "epochs": 1, "tasks": 1, "batch_size": batch_size}
    runs = [define("permuted-mnist", method, dataset=dataset, **settings) for method in methods]
    assert_same_alone(runs, tmp_path, dataset)


@pytest.mark.parametrize("inputs", ["unit", "kumar2023"])
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_stream_gives_the_same_bits_alone_and_in_a_stack(benchmark: str, inputs: str, tmp_path: Path) -> None:
    methods = ["adalin", "l2", "shrink-perturb", "adalin-tanh+l2", "scratch"]
    runs = [define(benchmark, method, seed, inputs=inputs) for method in methods for seed in (0, 1)]
    assert_same_alone(runs, tmp_path)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[StreamRun], Outcome]:
    known: dict[StreamRun, Outcome] = {}

    def outcome_alone(one: StreamRun) -> Outcome:
        if one not in known:
            known[one] = train([one], tmp_path_factory.mktemp("alone"))[one]
        return known[one]

    return outcome_alone


@pytest.mark.parametrize("sizes", [(1, 2, 3), (4, 5, 6), (7, 8, 9), (10, 11, 12)])
def test_who_else_is_in_a_stack_does_not_matter(
    sizes: tuple[int, ...], alone: Callable[[StreamRun], Outcome], tmp_path: Path
) -> None:
    pool = [
        define("random-label-mnist", method, seed, lr=lr, epochs=2)
        for method in ("adalin", "adalin-gelu", "l2", "scratch")
        for seed in (0, 7)
        for lr in (0.01, 0.03)
    ]
    for size in sizes:
        members = random.Random(size).sample(pool, size)
        together = train(members, tmp_path / str(size))
        for one in members:
            assert together[one] == alone(one), (one, members)


def test_runs_that_differ_in_one_option_of_their_method_do_not_share_it(tmp_path: Path) -> None:
    methods = [
        *("l2", "l2:strength=0.1", "scratch", "l2+scratch", "adalin", "adalin:gate=none", "no-gate", "prelu"),
        *(
            "leaky_relu",
            "leaky_relu:negative_slope=0.7001",
            "adalin-leaky_relu",
            "interpolation",
            "interpolation:base=elu",
        ),
        *("shrink-perturb", "shrink-perturb:noise=0.02", "shrink-perturb:shrink=0.5", "shrink-perturb:every=task"),
        *("adalin:granularity=layer", "adalin:granularity=network", "adalin-elu", "adalin-celu", "elu", "celu"),
    ]
    runs = [define("random-label-mnist", method, seed) for method in methods for seed in (0, 1)]
    runs += [
        define("random-label-mnist", method, init="he-normal") for method in ("adalin", "scratch", "shrink-perturb")
    ]
    assert_same_alone(runs, tmp_path)


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("method", ["adalin", "adalin-tanh", "adalin-gelu", "crelu", "fourier", "interpolation"])
def test_seeds_of_a_method_with_odd_batches_give_the_same_bits_alone(
    method: str, batch_size: int, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"images": 23, "epochs": 1, "batch_size": batch_size}
    assert_same_alone([define("random-label-mnist", method, seed, **settings) for seed in range(3)], tmp_path)


def test_the_number_of_processes_does_not_matter(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"images": 40, "epochs": 2, "tasks": 2}
    methods, seeds = ["adalin", "l2", "shrink-perturb", "crelu"], [0, 1]
    one, two = (
        run("random-label-mnist", methods, seeds, out=tmp_path / str(workers), workers=workers, **settings)
        for workers in (1, 2)
    )
    assert len(one) == 8
    for a, b in zip(one, two, strict=True):
        assert a.state == b.state == "done"
        assert a.run == b.run
        assert outcome(tmp_path / "1" / a.run.folder) == outcome(tmp_path / "2" / b.run.folder), a.run
    single = run("random-label-mnist", ["l2"], [1], out=tmp_path / "single", **settings)[0]
    assert outcome(tmp_path / "single" / single.run.folder) == outcome(tmp_path / "1" / one[3].run.folder)


def test_the_same_seed_again_is_the_same_and_another_is_not(tmp_path: Path) -> None:
    """The comparisons above can fail."""
    runs = [define("random-label-mnist", "adalin", seed) for seed in (0, 1)]
    first, again = (train(runs, tmp_path / name) for name in ("first", "again"))
    assert first == again
    zero, one = first.values()
    assert zero.keys() == one.keys()
    assert [name for name in zero if zero[name] == one[name]] == ["added", "start_scale", "position"]
