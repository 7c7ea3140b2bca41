"""A run's numbers are its own: the same to the bit whatever is trained before it or beside it."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from adalin import run
from adalin.methods import methods
from method_texts import METHODS
from tiny_runs import BENCHMARKS, define, outcome, train


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


# Batches of 5 leave the last one, of 3 images, to other code.
@pytest.mark.parametrize("benchmark", ["random-label-mnist", "permuted-mnist"])
def test_what_a_process_has_trained_before_does_not_matter(benchmark: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"batch_size": 5, "images": 43, "epochs": 1}
    runs = [define(benchmark, method, seed, **settings) for method in METHODS for seed in (0, 1)]
    forwards = train(runs, tmp_path / "forwards")
    torch.rand(3)
    assert train(runs[::-1], tmp_path / "backwards") == forwards
    for one in runs:
        assert len([name for name in forwards[one] if name.startswith("row")]) == one.tasks


@pytest.mark.parametrize("inputs", ["unit", "kumar2023"])
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_stream_gives_the_same_numbers_again(benchmark: str, inputs: str, tmp_path: Path) -> None:
    runs = [define(benchmark, method, inputs=inputs) for method in ("adalin", "adam+crelu", "scratch")]
    assert train(runs, tmp_path / "one") == train(runs[::-1], tmp_path / "other")


def test_no_two_methods_give_the_same_network(tmp_path: Path) -> None:
    """The comparisons above can fail."""
    # Some act at a task's end only, and are the baseline in the first one; some have not acted after so few steps.
    same = {"sgd", "scratch", "fire", "optimizer-reset", "head-reset", "reset", "redo", "hare-tortoise"}
    names = [name for name in methods() if name not in same]
    runs = [define("random-label-mnist", name, tasks=1) for name in names]
    outcomes = train(runs, tmp_path)
    networks = [
        str({key: value for key, value in own.items() if key.startswith("network")}) for own in outcomes.values()
    ]
    assert len(set(networks)) == len(names)


def test_the_number_of_processes_does_not_matter(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"images": 40, "epochs": 2, "tasks": 2}
    texts, seeds = ["adalin", "l2", "shrink-perturb", "adam+crelu"], [0, 1]
    one, two = (
        run("random-label-mnist", texts, seeds, out=tmp_path / str(workers), workers=workers, **settings)
        for workers in (1, 2)
    )
    assert len(one) == 8
    for a, b in zip(one, two, strict=True):
        assert a.state == b.state == "done"
        assert a.run == b.run
        assert outcome(tmp_path / "1" / a.run.folder) == outcome(tmp_path / "2" / b.run.folder), a.run


def test_the_same_seed_again_is_the_same_and_another_is_not(tmp_path: Path) -> None:
    runs = [define("random-label-mnist", "adalin", seed) for seed in (0, 1)]
    first, again = (train(runs, tmp_path / name) for name in ("first", "again"))
    assert first == again
    zero, one = first.values()
    assert zero.keys() == one.keys()
    assert [name for name in zero if zero[name] == one[name]] == ["steps", "position"]
