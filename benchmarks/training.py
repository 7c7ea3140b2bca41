"""The stacked engine against a plain PyTorch loop, against its own matrix products, and over processes.

The plain loop is what most people write: nn.Sequential, a straightforward AdaLin, a DataLoader, torch.optim.SGD. MLP
784-100-100-10 or 3072-100-100-10, AdaLin on ReLU, batch 16, one thread.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from adalin import AdaLin
from adalin.data import BUNDLED, Dataset, load
from adalin.engine import Gram, MLPStack, ModuleStack, NetworkSpec, Stack, library_for
from adalin.methods import Method
from adalin.models import make_model
from adalin.runs import RunFolder, Session, kinds, read_run
from adalin.streams import Scaling, Task, get_benchmark
from adalin.supervised._build import Streams
from adalin.supervised._loop import train_runs
from benchmarks._measure import Result, at_least, at_most, side_by_side

RUNS, IMAGES, BATCH, LR = 8, 1_200, 16, 1e-2
STEPS = IMAGES // BATCH


def measure() -> Iterator[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield from _mlp("random-label MNIST", load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255)
        # As fast as on real images: their number and size decide, not what is on them.
        yield from _mlp("random-label CIFAR-10", torch.rand(IMAGES, 3_072))
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
    model: nn.Module, images: Tensor, labels: Tensor, *, batch: int = BATCH, clip: float | None = None
) -> Callable[[], object]:
    loader = DataLoader(TensorDataset(images, labels), batch_size=batch, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

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


def _stack_epoch(stack: Stack, runs: int, images: int, *, batch: int = BATCH) -> Callable[[], object]:
    return lambda: stack.train(torch.stack([torch.randperm(images) for _ in range(runs)]), batch)


def _mlp_stack(images: Tensor, runs: int) -> MLPStack:
    """Runs as the laboratory makes them: each with images of its own, and their Gram matrix."""
    activation, specs, tasks = Method.parse("adalin").activation, [], []
    gram = Gram.of(images)
    for seed in range(runs):
        specs.append(NetworkSpec(make_model("mlp", (images.shape[1],), 10, activation), seed, LR, (), gram))
        tasks.append(Task(images.clone(), torch.randint(10, (len(images),))))
    stack = MLPStack(specs)
    stack.start_task(0, tasks)
    return stack


def _mlp(name: str, images: Tensor) -> Iterator[Result]:
    stack = _mlp_stack(images, RUNS)
    inputs = images.shape[1]
    plain = nn.Sequential(
        nn.Linear(inputs, 100), PlainAdaLin(100), nn.Linear(100, 100), PlainAdaLin(100), nn.Linear(100, 10)
    )
    subjects = {
        "plain": _plain_epoch(plain, images, torch.randint(10, (len(images),))),
        "stack": _stack_epoch(stack, RUNS, len(images)),
        "products": _products(stack),
    }
    ratios = side_by_side(subjects, "stack", rounds=25, calls=1)
    for kind in ("fastest", "median"):
        speedup, share = getattr(ratios["plain"], kind) * RUNS, getattr(ratios["products"], kind)
        yield at_least(8, f"{name}, stack of {RUNS}, {kind} epoch", speedup, "x plain loop")
        yield at_least(0.6, f"{name}, matrix products' share, {kind} epoch", share, "of the time")


def _products(stack: MLPStack) -> Callable[[], object]:
    """Nothing but the matrix products of an epoch, in the shapes that the engine has them.

    The first layer has no forward product: outputs of images that stay the same are looked up.
    """
    weights = [weight.clone() for weight in stack._weights]
    inputs = [torch.rand(RUNS, BATCH, weight.shape[1]) for weight in weights]
    grads = [torch.rand(RUNS, BATCH, weight.shape[2]) * 1e-9 for weight in weights]
    libraries = [library_for(BATCH * weight[0].numel()) for weight in weights]

    @torch.inference_mode()
    def epoch() -> None:
        for _ in range(STEPS):
            for x, weight in zip(inputs[1:], weights[1:], strict=True):
                torch.bmm(x, weight)
            for grad, weight in zip(grads[1:], weights[1:], strict=True):
                torch.bmm(grad, weight.mT)
            for x, grad, weight, library in zip(inputs, grads, weights, libraries, strict=True):
                with library:
                    weight.baddbmm_(x.mT, grad)

    return epoch


def _cnn() -> Iterator[Result]:
    images, labels = torch.rand(320, 3, 32, 32), torch.randint(100, (320,))
    activation = Method.parse("adalin").activation
    stack = ModuleStack([NetworkSpec(make_model("cnn", (3, 32, 32), 100, activation), 0, LR)])
    stack.start_task(0, [Task(images, labels)])
    plain = make_model("cnn", (3, 32, 32), 100, activation)
    for index, width in ((1, 16), (4, 16), (8, 64)):
        plain[index] = PlainAdaLin(width)  # type: ignore[operator]
    subjects = {"plain": _plain_epoch(plain, images, labels), "ours": _stack_epoch(stack, 1, len(images))}
    ratio = side_by_side(subjects, "ours", rounds=15, calls=1)["plain"]
    yield at_least(1.5, "class-split CNN, fastest epoch", ratio.fastest, "x plain loop")
    yield at_least(1.5, "class-split CNN, median epoch", ratio.median, "x plain loop")


def _resnet() -> Iterator[Result]:
    """The narrow network, with the batches and the clipping of class-incremental CIFAR-100."""
    pixels, labels = torch.randint(256, (500, 3, 32, 32), dtype=torch.uint8), torch.randint(100, (500,))
    activation, batch, clip = Method.parse("adalin").activation, 250, 0.5
    stack = ModuleStack([NetworkSpec(make_model("resnet18-narrow", (3, 32, 32), 100, activation), 0, LR, clip=clip)])
    stack.start_task(0, [Task(pixels, labels, scale=Scaling("cifar100", "unit"))])
    plain = make_model("resnet18-narrow", (3, 32, 32), 100, activation)
    for module in list(plain.modules()):
        for name, child in module.named_children():
            if isinstance(child, AdaLin):
                setattr(module, name, PlainAdaLin(child.alpha.numel()))
    subjects = {
        "plain": _plain_epoch(plain, pixels / 255, labels, batch=batch, clip=clip),
        "ours": _stack_epoch(stack, 1, len(pixels), batch=batch),
    }
    ratio = side_by_side(subjects, "ours", rounds=8, calls=1)["plain"]
    yield at_least(1.2, "narrow ResNet-18, fastest epoch", ratio.fastest, "x plain loop")
    yield at_least(1.2, "narrow ResNet-18, median epoch", ratio.median, "x plain loop")


def _overhead() -> Result:
    """Of a task of random-label MNIST at the paper's length, with metrics, checkpoints and the loop around it all."""
    inside, supervised = [0.0], kinds.get("supervised")
    runs = supervised.define("random-label-mnist", ["adalin"], range(RUNS), data=BUNDLED, tasks=1).runs
    train, started = MLPStack.train, list[float]()

    def timed(self: MLPStack, *arguments: Any, **options: Any) -> Tensor:
        start = time.perf_counter()
        started.append(start)
        result = train(self, *arguments, **options)
        inside[0] += time.perf_counter() - start
        return result

    with tempfile.TemporaryDirectory() as root:
        MLPStack.train = timed  # type: ignore[method-assign]
        try:
            supervised.train(runs, Session(out=Path(root), data=BUNDLED))
        finally:
            MLPStack.train = train  # type: ignore[method-assign]
        total = time.perf_counter() - started[0]
    return at_most(5, "metrics, checkpoints and the loop around training", 100 * (total / inside[0] - 1), "% more")


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
    epoch = _stack_epoch(_mlp_stack(load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255, RUNS), RUNS, IMAGES)
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
        train_runs(folders, streams, Session(out=Path(root)))
    # Not getrusage's ru_maxrss: that of a new process begins with what its parent had.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    pipe.send(int(status["VmHWM"].split()[0]) / 1_000)
