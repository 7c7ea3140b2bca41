"""What the definition of a run stands for: its benchmark, its stream, its network, its optimiser, its steps."""

import os
from functools import lru_cache

import torch
from torch import Tensor, nn

from adalin._seeds import generator, seeded
from adalin.data import Dataset
from adalin.engine import Engine, Gram, choose_engine, presets
from adalin.models import INITS, make_model, trial_build
from adalin.optim import SGD, Optimizer
from adalin.runs import Run
from adalin.settings import SupervisedSettings
from adalin.streams import Benchmark, Stream, Task, get_benchmark

StreamRun = Run[SupervisedSettings]
"""A run on a stream."""


def benchmark_of(run: StreamRun) -> Benchmark:
    """The benchmark of a run."""
    return get_benchmark(run.benchmark)


def network_of(run: StreamRun) -> str:
    """The name of a run's network."""
    return run.settings.model or benchmark_of(run).model


def optimizer_of(run: StreamRun) -> Optimizer:
    """The optimiser of a run: its method's, or its preset's where the method has plain SGD."""
    own = run.parsed_method.optimizer
    return presets.get(run.settings.preset).optimizer if own == SGD() else own


def images_in(run: StreamRun, task: int) -> int:
    """How many images a task is trained on."""
    return run.settings.images * (task + 1 if benchmark_of(run).grows else 1)


def steps_in(run: StreamRun, task: int) -> int:
    """Gradient steps of a task."""
    return run.settings.steps or run.settings.epochs * -(-images_in(run, task) // run.settings.batch_size)


def order_of(run: StreamRun, images: int, task: int, epoch: int) -> Tensor:
    """The order in which an epoch takes the images of a task."""
    return torch.randperm(images, generator=generator(run.seed, "order", task, epoch))


def check_network(run: StreamRun, stream: Stream) -> Engine:
    """The engine of a run; raises ValueError if its network cannot have the method's activation, or be trained here."""
    settings = run.settings
    with trial_build():
        model = make_model(network_of(run), stream.shape, stream.classes, run.parsed_method.activation)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    inputs = (settings.images + settings.batch_size) * torch.Size(stream.shape).numel()
    needed, there = 4.0 * (4 * numbers + inputs), memory_bytes()
    if needed > there:
        raise ValueError(
            f"{run.method} on {run.benchmark} needs about {needed / 1e9:.0f} GB ({numbers:,} weights, "
            f"{settings.images:,} images, {settings.batch_size:,} in a batch), and this machine has "
            f"{there / 1e9:.0f}: choose a smaller network, or fewer images"
        )
    rules = run.parsed_method.rules
    return choose_engine(model, preset=presets.get(settings.preset), precision=settings.precision, rules=rules)


def memory_bytes() -> float:
    """Memory of this machine."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def task_of(run: StreamRun, stream: Stream, index: int) -> Task:
    """A task of a run's stream; raises ValueError if it is not what the run was defined for."""
    data = stream.task(index)
    where, images = f"task {index} of {run.benchmark}", images_in(run, index)
    for what, count in (("inputs", len(data.inputs)), ("labels", len(data.labels))):
        if count != images:
            raise ValueError(f"{where} has {count} {what}, not the {images} images of the run")
    least, most = data.labels.min().item(), data.labels.max().item()
    if data.labels.dtype != torch.int64 or least < 0 or most >= stream.classes:
        raise ValueError(
            f"{where} has labels of {data.labels.dtype} from {least} to {most}, "
            f"not of torch.int64 from 0 to {stream.classes - 1}"
        )
    is_new = index == 0 or not stream.same_inputs
    if is_new and data.inputs.is_floating_point() and not _is_finite(data.inputs):
        raise ValueError(f"{where} has inputs that are NaN or infinite: remove or replace them")
    return data


def _is_finite(inputs: Tensor) -> bool:
    # A sum is finite where all numbers are, but for very large ones: it takes a fraction of the time.
    return bool(inputs.sum().isfinite() or inputs.isfinite().all())


def make_network(run: StreamRun, stream: Stream, *purpose: str | int) -> nn.Module:
    """The network, initialised for a purpose: ("init", task)."""
    with seeded(run.seed, *purpose):
        model = make_model(network_of(run), stream.shape, stream.classes, run.parsed_method.activation)
        if run.settings.init != "default":  # which it has been given already
            INITS.get(run.settings.init)(model)
        return model


class Streams:
    """The stream of the last run and the Gram matrix of its inputs, which runs that differ in their method share."""

    def __init__(self, dataset: Dataset | None) -> None:
        self._dataset = dataset
        self._key: tuple[object, ...] = ()
        self._stream: Stream | None = None
        self._grams: list[Gram | None] = []

    def stream(self, run: StreamRun) -> Stream:
        """The stream of a run."""
        benchmark, settings = benchmark_of(run), run.settings
        key = (benchmark, run.seed, settings.images, settings.inputs)
        if self._stream is None or key != self._key:
            self._stream, self._grams = None, []  # first, so that there are never two in memory
            stream = benchmark.stream(self._dataset, seed=run.seed, images=settings.images, scaling=settings.inputs)
            for name in ("shape", "classes", "same_inputs", "task"):
                if not hasattr(stream, name):
                    raise TypeError(f"the stream of {benchmark.id} must be one of tasks with {name}, not {stream!r}")
            self._stream, self._key = stream, key
        return self._stream

    def gram(self, run: StreamRun) -> Gram | None:
        """The Gram matrix of a run's inputs, where they never change and it makes training faster."""
        stream = self.stream(run)
        if not stream.same_inputs:
            return None
        if not self._grams:
            first = stream.task(0)
            self._grams.append(Gram.of(first.floats(first.inputs).flatten(1)))
        return self._grams[0]


@lru_cache(maxsize=1)
def streams_of(dataset: Dataset | None) -> Streams:
    """The streams on a data set, for all runs of a process."""
    return Streams(dataset)
