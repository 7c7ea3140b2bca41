"""A learner on its engine against a plain PyTorch loop, over processes, and what is around it.

The plain loop is what most people write: nn.Sequential, a straightforward AdaLin, a DataLoader, torch's optimiser. MLP
784-100-100-10 or 3072-100-100-10, AdaLin on ReLU, batch 16, one thread.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from adalin import AdaLin, native
from adalin.data import BUNDLED, Dataset, load
from adalin.engine import Gram, Learner, Learning, Steps, make_net
from adalin.methods import Method
from adalin.models import make_model
from adalin.runs import RunFolder, Session, kinds, read_run
from adalin.streams import Scaling, Task, get_benchmark
from adalin.supervised._build import Streams
from adalin.supervised._loop import train_run
from benchmarks._measure import Result, at_least, at_most, side_by_side

IMAGES, BATCH, LR = 1_200, 16, 1e-2
BARS: dict[str, dict[str, float]] = {
    "v4": {"random-label MNIST": 13, "random-label CIFAR-10": 20, "random-label MNIST, Adam": 10},
    "v3": {"random-label MNIST": 8.5, "random-label CIFAR-10": 13, "random-label MNIST, Adam": 6.5},
}
"""Times a plain loop on native kernels, by their instruction set; PyTorch alone should reach 1.5."""


def measure() -> Iterator[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield from _mlp("random-label MNIST", load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255)
        # As fast as on real images: their number and size decide, not what is on them.
        yield from _mlp("random-label CIFAR-10", torch.rand(IMAGES, 3_072))
        yield from _mlp("random-label MNIST, Adam", torch.rand(IMAGES, 784), "adam+adalin")
        yield from _cnn()
        yield from _resnet()
        yield _overhead()
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
    yield _scaling()
    if Path("/proc").exists():  # where a process can read its own peak
        yield _memory()


class PlainAdaLin(nn.Module):
    """Equation 2 on ReLU, as one would write it down."""

    def __init__(self, width: int, dim: int = 1) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.cos(torch.pi / 2 * (x > 0).to(x.dtype)).detach()
        alpha = self.alpha.view(1, -1, *[1] * (x.dim() - 2))
        return F.relu(x) + alpha * x * gate


def _plain_epoch(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    batch: int = BATCH,
    clip: float | None = None,
    adam: bool = False,
) -> Callable[[], object]:
    loader = DataLoader(TensorDataset(images, labels), batch_size=batch, shuffle=True)
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(model.parameters(), lr=LR)

    def epoch() -> float:
        accuracy = 0.0
        for x, y in loader:
            logits = model(x)
            accuracy += (logits.argmax(1) == y).float().mean().item()
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        return accuracy

    return epoch


def _epoch(
    model: nn.Module, data: Task, *, method: str = "adalin", batch: int = BATCH, clip: float | None = None
) -> Callable[[], object]:
    """An epoch as the laboratory makes it."""
    learning = Learning(lr=LR, batch_size=batch, clip=clip)
    floats = data.floats(data.inputs[:IMAGES]).flatten(1)
    learner = Learner(make_net(model), Method.parse(method).optimizer, learning, gram=lambda: Gram.of(floats))
    learner.start_task(0, data, 10**9)
    steps = -(-len(data.inputs) // batch)

    def epoch() -> None:
        order, step = torch.randperm(len(data.inputs)), 0
        while step < steps:
            step += len(learner.train(order[step * batch :], step))

    return epoch


def _mlp_epoch(images: Tensor, method: str = "adalin") -> Callable[[], object]:
    model = make_model("mlp", (images.shape[1],), 10, Method.parse(method).activation)
    return _epoch(model, Task(images, torch.randint(10, (len(images),))), method=method)


def _mlp(name: str, images: Tensor, method: str = "adalin") -> Iterator[Result]:
    inputs = images.shape[1]
    plain = nn.Sequential(
        nn.Linear(inputs, 100), PlainAdaLin(100), nn.Linear(100, 100), PlainAdaLin(100), nn.Linear(100, 10)
    )
    labels = torch.randint(10, (len(images),))
    subjects = {
        "plain": _plain_epoch(plain, images, labels, adam=method != "adalin"),
        "ours": _mlp_epoch(images, method),
    }
    ratio = side_by_side(subjects, "ours", rounds=25, calls=1)["plain"]
    engine = make_net(make_model("mlp", (inputs,), 10, Method.parse(method).activation)).engine
    bars = BARS.get(native.isa() or "", {}) if engine == "native" else {}
    bar = bars.get(name, 1.5)
    for kind in ("fastest", "median"):
        yield at_least(bar, f"{name}, {engine} engine, {kind} epoch", getattr(ratio, kind), "x plain loop")


def _cnn() -> Iterator[Result]:
    images, labels = torch.rand(320, 3, 32, 32), torch.randint(100, (320,))
    activation = Method.parse("adalin").activation
    ours = _epoch(make_model("cnn", (3, 32, 32), 100, activation), Task(images, labels))
    plain = make_model("cnn", (3, 32, 32), 100, activation)
    for index, width in ((1, 16), (4, 16), (8, 64)):
        plain[index] = PlainAdaLin(width)  # type: ignore[operator]
    subjects = {"plain": _plain_epoch(plain, images, labels), "ours": ours}
    ratio = side_by_side(subjects, "ours", rounds=15, calls=1)["plain"]
    yield at_least(1.5, "class-split CNN, fastest epoch", ratio.fastest, "x plain loop")
    yield at_least(1.5, "class-split CNN, median epoch", ratio.median, "x plain loop")


def _resnet() -> Iterator[Result]:
    """The narrow network, with the batches and the clipping of class-incremental CIFAR-100."""
    pixels, labels = torch.randint(256, (500, 3, 32, 32), dtype=torch.uint8), torch.randint(100, (500,))
    activation, batch, clip = Method.parse("adalin").activation, 250, 0.5
    data = Task(pixels, labels, scale=Scaling("cifar100", "unit"))
    ours = _epoch(make_model("resnet18-narrow", (3, 32, 32), 100, activation), data, batch=batch, clip=clip)
    plain = make_model("resnet18-narrow", (3, 32, 32), 100, activation)
    for module in list(plain.modules()):
        for name, child in module.named_children():
            if isinstance(child, AdaLin):
                setattr(module, name, PlainAdaLin(child.alpha.numel()))
    subjects = {
        "plain": _plain_epoch(plain, pixels / 255, labels, batch=batch, clip=clip),
        "ours": ours,
    }
    ratio = side_by_side(subjects, "ours", rounds=8, calls=1)["plain"]
    yield at_least(1.2, "narrow ResNet-18, fastest epoch", ratio.fastest, "x plain loop")
    yield at_least(1.2, "narrow ResNet-18, median epoch", ratio.median, "x plain loop")


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
    epoch = _mlp_epoch(load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255)
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
