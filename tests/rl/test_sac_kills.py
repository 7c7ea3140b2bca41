"""A run of SAC that is killed at any moment, any number of times, ends with the same bits as one that is not."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adalin.training import RunFolder
from rl.tiny_sac import define, sac_outcome, train

pytest.importorskip("mujoco", reason="the rl extra is not installed")

# Imports everything once; then, for every line of input, forks a process that trains a run and writes checkpoints all
# the time, and kills it: after some seconds, or, by its own hand, at the n-th call of a function. Prints how it ended.
SERVER = """
import json, os, signal, sys, time
from pathlib import Path
import torch, mujoco
from rl.tiny_sac import define, make_small, train

def die_at(owner, name, call):
    original = getattr(owner, name)
    def counted(*args, **kwargs):
        nonlocal call
        call -= 1
        if not call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)
    setattr(owner, name, counted)

torch.set_num_threads(1)
make_small()
for line in sys.stdin:
    env, settings, out, when, number = json.loads(line)
    child = os.fork()
    if child == 0:
        if when in ("fsync", "replace", "unlink"):
            die_at(os if when == "fsync" else Path, when, number)
        else:
            os.fsync = lambda descriptor: None  # survives a kill without it
        train(define(env, **settings), Path(out), checkpoint_seconds=-1)
        os._exit(0)
    start = time.monotonic()
    if when == "after":
        time.sleep(number)
        os.kill(child, signal.SIGKILL)
    print(json.dumps([os.waitpid(child, 0)[1], time.monotonic() - start]), flush=True)
"""

Serve = Callable[..., tuple[int, float]]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    command = [sys.executable, "-c", SERVER]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:

        def request(*what: object) -> tuple[int, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()
            status, seconds = json.loads(process.stdout.readline())
            return status, seconds

        yield request


KILLS = 5
"""Random moments in each of the tests below, and as many moments inside of writes."""


@pytest.mark.usefixtures("_small", "_no_waiting_for_the_disk")
@pytest.mark.parametrize("settings", [{}, {"buffer_size": 14, "replay_ratio": 2}])
def test_kills_change_nothing(settings: dict[str, Any], serve: Serve, tmp_path: Path) -> None:
    run = define("Hopper-v4", **settings)
    expected = train(run, tmp_path / "whole")
    out, moments = tmp_path / "killed", []

    def assert_as_expected() -> None:
        assert sac_outcome(run, out) == expected, moments
        shutil.rmtree(out)

    status, seconds = serve("Hopper-v4", settings, str(out), "never", 0)
    assert status == 0
    assert_as_expected()
    rng = random.Random(str(settings))
    wanted = [("after", rng.uniform(0, seconds)) for _ in range(KILLS)]
    wanted += [(rng.choice(("fsync", "replace", "unlink")), rng.randint(1, 12)) for _ in range(KILLS)]
    wanted += [("replace", 4)]  # the first transitions are there, the first checkpoint is not
    rng.shuffle(wanted)
    while wanted:
        moments.append(wanted[-1])
        status, _ = serve("Hopper-v4", settings, str(out), *moments[-1])
        if status == 0:  # it was over before that
            assert_as_expected()
            when, number = wanted.pop()
            wanted.append((when, number / 2 if when == "after" else max(1, int(number) // 2)))
            continue
        assert status == signal.SIGKILL, moments
        wanted.pop()
        for folder in RunFolder.find(out):
            folder.load(lambda message: pytest.fail(f"{message}, {moments}"))
    assert serve("Hopper-v4", settings, str(out), "never", 0)[0] == 0
    assert_as_expected()
