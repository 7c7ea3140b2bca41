"""Trains in processes that are killed: after some seconds, or by their own hand at the n-th call of a function.

A module that is tested with it has `prepare(*what)`, called before the process that trains is forked, and
`train_all(out, *what)`, called in that process; it should write checkpoints all the time.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from adalin.runs import RunFolder

WRITES = ("fsync", "replace", "unlink")
Moment = tuple[str, float]
"""("after", seconds), (one of `WRITES`, the call) or ("never", 0)."""
Serve = Callable[[Path, Sequence[object], Moment], tuple[int, float]]
"""(out, what, moment) -> how the process ended, and after how many seconds."""


def random_moments(rng: random.Random, count: int, *, seconds: float, calls: int) -> list[Moment]:
    """So many in the time that training takes, and as many inside of writes."""
    moments: list[Moment] = [("after", rng.uniform(0, seconds)) for _ in range(count)]
    return moments + [(rng.choice(WRITES), rng.randint(1, calls)) for _ in range(count)]


def assert_kills_change_nothing(
    serve: Serve, out: Path, what: Sequence[object], wanted: list[Moment], assert_as_expected: Callable[[], None]
) -> None:
    """Train what is to be trained, being killed at all these moments one after the other, until it is done."""
    moments = []
    while wanted:
        moments.append(wanted[-1])
        status, _ = serve(out, what, moments[-1])
        if status == 0:  # it was over before that
            assert_as_expected()
            shutil.rmtree(out)
            when, number = wanted.pop()
            wanted.append((when, number / 2 if when == "after" else max(1, int(number) // 2)))
            continue
        assert status == signal.SIGKILL, moments
        wanted.pop()
        for folder in RunFolder.find(out):
            folder.load(lambda message: pytest.fail(f"{message}, {moments}"))
    assert serve(out, what, ("never", 0))[0] == 0, moments
    assert_as_expected()


@contextmanager
def server(module: str) -> Iterator[Serve]:
    """A process that has imported everything once, and forks one that trains at each call."""
    command = [sys.executable, __file__, module]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:

        def serve(out: Path, what: Sequence[object], moment: Moment) -> tuple[int, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([str(out), what, moment]) + "\n")
            process.stdin.flush()
            status, seconds = json.loads(process.stdout.readline())
            return status, seconds

        yield serve


def _be_server(module: Any) -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        out, what, (when, number) = json.loads(line)
        module.prepare(*what)
        child = os.fork()
        if child == 0:
            if when in WRITES:
                _die_at(os if when == "fsync" else Path, when, number)
            else:
                os.fsync = lambda descriptor: None  # survives a kill without it
            module.train_all(Path(out), *what)
            os._exit(0)
        start = time.monotonic()
        if when == "after":
            time.sleep(number)
            os.kill(child, signal.SIGKILL)
        print(json.dumps([os.waitpid(child, 0)[1], time.monotonic() - start]), flush=True)


def _die_at(owner: Any, name: str, call: int) -> None:
    original = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal call
        call -= 1
        if not call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, counted)


if __name__ == "__main__":
    _be_server(import_module(sys.argv[1]))
