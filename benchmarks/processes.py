"""What is around training: metrics and checkpoints, several processes, memory."""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from adalin.data import BUNDLED, Dataset, load
from adalin.engine import Learner, Steps
from adalin.runs import RunFolder, Session, kinds, read_run
from adalin.streams import get_benchmark
from adalin.supervised._build import Streams
from adalin.supervised._loop import train_run
from benchmarks._measure import Result, at_least, at_most, one_thread
from benchmarks.training import IMAGES, our_perceptron


def measure() -> Iterator[Result]:
    with one_thread():
        yield _overhead()
    yield _scaling()
    if Path("/proc").exists():  # where a process can read its own peak
        yield _memory()


def _overhead() -> Result:
    """Of a task of random-label MNIST at the paper's length, with metrics, checkpoints and the loop around it all."""
    inside, supervised = [0.0], kinds.get("supervised")
    (run,) = supervised.define("random-label-mnist", ["adalin"], [0], data=BUNDLED, tasks=1).runs
    train, started = Learner.train, list[float]()

    def timed(self: Learner, order: Tensor, first_step: int) -> Steps:
        start = time.process_time()
        started.append(start)
        made = train(self, order, first_step)
        inside[0] += time.process_time() - start
        return made

    with tempfile.TemporaryDirectory() as root, patch.object(Learner, "train", timed):
        supervised.train(run, Session(out=Path(root), data=BUNDLED))
        total = time.process_time() - started[0]
    return at_most(3, "metrics, checkpoints and the loop around training", 100 * (total / inside[0] - 1), "% more")


def _scaling() -> Result:
    """Steps per second of two processes as a multiple of one's, in turns."""
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(2):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_train_when_told, args=(theirs,), daemon=True)
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
    return at_least(1.8, "two processes", best[2] / best[1], "x one")


def _train_when_told(pipe: Any) -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    epoch = our_perceptron(load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255, "adalin")
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
    return at_most(1_000, "memory of a worker, shuffled-label CIFAR-10, 12 runs", megabytes, "MB")


def _train_largest(pipe: Any) -> None:
    torch.set_num_threads(1)
    labels = torch.arange(60_000) % 10
    train, test = (torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8) for count in (50_000, 10_000))
    dataset = Dataset("cifar10", "noise", False, train, labels[:50_000], test, labels[50_000:], 10, "")
    methods = ("baseline", "adalin", "tanh", "adalin-tanh")
    benchmark = get_benchmark("shuffled-label-cifar10")
    settings = benchmark.settings.values() | {"tasks": 1, "epochs": 1, "data": dataset.sha256}
    shared = {"benchmark": benchmark.id, **settings}
    runs = [read_run({"method": method, "seed": seed, **shared}) for method in methods for seed in (3, 4, 5)]
    with tempfile.TemporaryDirectory() as root:
        folders = [(run, RunFolder(Path(root) / run.folder)) for run in runs]
        for run, folder in folders:
            folder.create_or_check(dict(run.config), {"tasks": 1})
        streams = Streams(dataset)
        del dataset, train, test
        for run, folder in folders:
            train_run(run, folder, streams, Session(out=Path(root)))
    # Not getrusage's ru_maxrss: that of a new process begins with what its parent had.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    pipe.send(int(status["VmHWM"].split()[0]) / 1_000)
