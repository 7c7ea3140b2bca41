"""What is around native training: metrics and the loop, training without kernels, memory, two processes."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from adalin import native
from adalin.data import Dataset
from adalin.engine import Learner, Steps
from adalin.executors import engine_settings
from adalin.runs import RunFolder, Session, read_run
from adalin.streams import Task, get_benchmark
from adalin.supervised._build import StreamRun, Streams
from adalin.supervised._loop import TrainingLoop, train_run
from benchmarks._measure import Result, at_least, at_most, one_thread, side_by_side
from benchmarks.plain import PlainAdaLin, perceptron, plain_epoch
from benchmarks.training import BATCH, IMAGES, our_perceptron

AROUND = {"random-label-mnist": 3.0, "shuffled-label-cifar10": 3.0}
"""Share of training, in percent, that all else may take."""


def measure() -> Iterator[Result]:
    with one_thread():
        for name, bar in AROUND.items():
            inside, around = _task_seconds(name)
            yield at_most(bar, f"metrics and the loop, {name}", 100 * around / inside, "% of training")
        yield at_most(10, "metrics and the loop, permuted-mnist", 1e3 * _task_seconds("permuted-mnist")[1], "ms a task")
        yield from _pure_python()
    yield _scaling()
    if Path("/proc").exists():  # where a process can read its own peak
        yield _memory()


# ---- Around a task ---------------------------------------------------------------------------------------------------


def _task_seconds(name: str, tasks: int = 4) -> tuple[float, float]:
    """Of the task with the least around it, but for the first: training's seconds, and those of all else."""
    train, finish = Learner.train, TrainingLoop._finish_task
    inside, marks = [0.0], list[tuple[float, float]]()

    def timed(self: Learner, order: Tensor, first_step: int) -> Steps:
        start = time.process_time()
        made = train(self, order, first_step)
        inside[0] += time.process_time() - start
        return made

    def finished(self: TrainingLoop, data: Task) -> None:
        finish(self, data)
        marks.append((time.process_time(), inside[0]))

    run = _run(name, "adalin", 0, tasks)
    streams = Streams(_noise(get_benchmark(name).dataset or ""))
    with patch.object(Learner, "train", timed), patch.object(TrainingLoop, "_finish_task", finished):
        _train([run], streams)
    both = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(marks)]
    return min(((own, total - own) for total, own in both), key=lambda pair: pair[1])


def _run(name: str, method: str, seed: int, tasks: int, **settings: Any) -> StreamRun:
    benchmark = get_benchmark(name)
    values = benchmark.settings.values() | {"tasks": tasks, "data": ""} | settings
    return read_run({"benchmark": benchmark.id, "method": method, "seed": seed, **values})


def _noise(name: str) -> Dataset:
    """As fast as real images: their number and size decide, not what is on them."""
    shape, count = ((1, 28, 28), 60_000) if name == "mnist" else ((3, 32, 32), 50_000)
    train, test = (torch.randint(256, (images, *shape), dtype=torch.uint8) for images in (count, 10_000))
    labels = torch.arange(count) % 10
    return Dataset(name, "noise", False, train, labels, test, labels[:10_000], 10, "")


def _train(runs: list[StreamRun], streams: Streams) -> None:
    with tempfile.TemporaryDirectory() as root, engine_settings():
        for run in runs:
            folder = RunFolder(Path(root) / run.folder)
            folder.create_or_check(dict(run.config), {"tasks": run.tasks})
            train_run(run, folder, streams, Session(out=Path(root)))


# ---- Without kernels -------------------------------------------------------------------------------------------------


def _pure_python() -> Iterator[Result]:
    """In a process of its own: which kernels there are is decided at import."""
    program = "from benchmarks.around import pure_python_ratio; print(*pure_python_ratio())"
    environment = os.environ | {"ADALIN_ISA": "none", "OMP_NUM_THREADS": "1"}
    printed = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    for kind, value in zip(("fastest", "median"), map(float, printed.split()), strict=True):
        yield at_least(1.5, f"without native kernels, {kind} epoch", value, "x plain loop")


def pure_python_ratio() -> tuple[float, float]:
    """Of the fastest and of the median epochs."""
    assert native.isa() is None
    with one_thread():
        images, labels = torch.rand(IMAGES, 784), torch.randint(10, (IMAGES,))
        loop = plain_epoch(perceptron(784, PlainAdaLin), images, labels, batch=BATCH)
        subjects = {"plain": loop, "ours": our_perceptron(images, "adalin")}
        found = side_by_side(subjects, "ours", rounds=5, calls=3)["plain"]
    return found.fastest, found.median


# ---- Processes -------------------------------------------------------------------------------------------------------


def _scaling() -> Result:
    """Steps per second of two processes as a multiple of one's, in turns."""
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for place in range(2):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_train_when_told, args=(theirs, place), daemon=True)
        process.start()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()  # ready
    best = {1: 0.0, 2: 0.0}
    for _ in range(6):
        for count in best:
            for pipe in pipes[:count]:
                pipe.send(2.0)
            best[count] = max(best[count], sum(pipe.recv() for pipe in pipes[:count]))
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        process.join()
    return at_least(1.9, "two processes", best[2] / best[1], "x one")


def _train_when_told(pipe: Any, place: int) -> None:
    with one_thread(place):
        epoch = our_perceptron(torch.rand(IMAGES, 784), "adalin")
        epoch()
        pipe.send("ready")
        while (seconds := pipe.recv()) is not None:
            start, epochs = time.perf_counter(), 0
            while time.perf_counter() - start < seconds:
                epoch()
                epochs += 1
            pipe.send(epochs / (time.perf_counter() - start))


def _memory() -> Result:
    """Of a process that trains four methods with three seeds on the benchmark with the largest inputs."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_train_largest, args=(theirs,), daemon=True)
    process.start()
    theirs.close()  # so that one which dies does not leave us waiting
    megabytes = ours.recv()
    process.join()
    return at_most(500, "memory of a worker, shuffled-label CIFAR-10, 12 runs", megabytes, "MB")


def _train_largest(pipe: Any) -> None:
    name, methods = "shuffled-label-cifar10", ("baseline", "adalin", "tanh", "adalin-tanh")
    runs = [_run(name, method, seed, 1, epochs=1) for method in methods for seed in (3, 4, 5)]
    with one_thread():
        _train(runs, Streams(_noise("cifar10")))
    # Not getrusage's ru_maxrss: that of a new process begins with what its parent had.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    pipe.send(int(status["VmHWM"].split()[0]) / 1_000)
