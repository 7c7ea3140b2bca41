"""A run of SAC that is killed at any moment, any number of times, ends with the same bits as one that is not."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kills import Serve, assert_kills_change_nothing, random_moments, server
from rl.tiny_sac import define, make_small, sac_outcome, train

pytest.importorskip("mujoco", reason="the rl extra is not installed")


def prepare(settings: dict[str, Any]) -> None:
    make_small()


def train_all(out: Path, settings: dict[str, Any]) -> None:
    train(define("Hopper-v4", **settings), out, checkpoint_seconds=-1)


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    with server(__name__) as serve:
        yield serve


@pytest.mark.usefixtures("_small", "_no_waiting_for_the_disk")
@pytest.mark.parametrize("settings", [{}, {"buffer_size": 14, "replay_ratio": 2}])
def test_kills_change_nothing(settings: dict[str, Any], serve: Serve, tmp_path: Path) -> None:
    run = define("Hopper-v4", **settings)
    expected = train(run, tmp_path / "whole")
    out = tmp_path / "killed"

    def assert_as_expected() -> None:
        assert sac_outcome(run, out) == expected

    status, seconds = serve(out, [settings], ("never", 0))
    assert status == 0
    assert_as_expected()
    shutil.rmtree(out)
    rng = random.Random(str(settings))
    wanted = random_moments(rng, 5, seconds=seconds, calls=12)
    wanted.append(("replace", 4))  # the first transitions are there, the first checkpoint is not
    rng.shuffle(wanted)
    assert_kills_change_nothing(serve, out, [settings], wanted, assert_as_expected)
