"""A run that is killed at any moment, any number of times, ends with the same bits as one that is not."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kills import Serve, assert_kills_change_nothing, random_moments, server
from method_texts import METHODS
from tiny_runs import data_of, define, outcome, train

OPTIMIZERS = ["sgd:momentum=0.9,nesterov=true", "adam", "adamw:schedule=cosine", "rmsprop:momentum=0.5"]


def prepare(benchmark: str, methods: list[str]) -> None:
    data_of(benchmark)


def train_all(out: Path, benchmark: str, methods: list[str]) -> None:
    train([define(benchmark, method, epochs=2) for method in methods], out, checkpoint_seconds=-1)


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    with server(__name__) as serve:
        yield serve


@pytest.mark.parametrize(
    ("benchmark", "methods"),
    [
        *(("random-label-mnist", METHODS[start::4]) for start in range(4)),
        ("permuted-mnist", ["adalin", "l2", "shrink-perturb", "scratch", "crelu:match=params"]),
        ("random-label-cifar10", ["adalin+l2", "shrink-perturb", "adalin-tanh"]),
        ("shuffled-label-cifar10", ["adalin+l2", "scratch", "fourier"]),
        ("class-split-cifar100", ["adalin+l2", "shrink-perturb", "scratch", "crelu"]),
        ("random-label-mnist", [f"{optimizer}+adalin+l2" for optimizer in OPTIMIZERS]),
        ("permuted-mnist", [f"{optimizer}+crelu+scratch" for optimizer in OPTIMIZERS]),
        ("shuffled-label-cifar10", [f"{optimizer}+tanh+shrink-perturb" for optimizer in OPTIMIZERS]),
        ("class-split-cifar100", [f"{optimizer}+adalin-tanh" for optimizer in OPTIMIZERS]),
        ("random-label-cifar10", [f"{optimizer}+fourier+shrink-perturb:every=task" for optimizer in OPTIMIZERS]),
    ],
)
def test_kills_change_nothing(benchmark: str, methods: list[str], serve: Serve, tmp_path: Path) -> None:
    runs = [define(benchmark, method, epochs=2) for method in methods]
    expected = train(runs, tmp_path / "whole")
    out = tmp_path / "killed"

    def assert_as_expected() -> None:
        for one in runs:
            assert outcome(out / one.folder) == expected[one], one

    status, seconds = serve(out, (benchmark, methods), ("never", 0))
    assert status == 0
    assert_as_expected()
    shutil.rmtree(out)
    rng = random.Random(f"{benchmark} {methods}")
    wanted = random_moments(rng, 4, seconds=seconds, calls=4 * len(runs))
    rng.shuffle(wanted)
    assert_kills_change_nothing(serve, out, (benchmark, methods), wanted, assert_as_expected)
