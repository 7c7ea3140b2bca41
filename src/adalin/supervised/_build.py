"""What the definition of a run stands for: its benchmark, its stream, its network, its steps."""

import torch
from torch import Tensor, nn

from adalin._seeds import generator, seeded
from adalin.data import Dataset
from adalin.engine import Gram
from adalin.models import INITS, make_model, trial_build
from adalin.runs import Run
from adalin.settings import SupervisedSettings
from adalin.streams import Benchmark, Stream, get_benchmark

StreamRun = Run[SupervisedSettings]
"""A run on a stream."""


def benchmark_of(run: StreamRun) -> Benchmark:
    """The benchmark of a run."""
    return get_benchmark(run.benchmark)


def network_of(run: StreamRun) -> str:
    """The name of a run's network."""
    return run.settings.model or benchmark_of(run).model


def images_in(run: StreamRun, task: int) -> int:
    """How many images a task is trained on."""
    return run.settings.images * (task + 1 if benchmark_of(run).grows else 1)


def steps_in(run: StreamRun, task: int) -> int:
    """Gradient steps of a task."""
    return run.settings.steps or run.settings.epochs * -(-images_in(run, task) // run.settings.batch_size)


def order_of(run: StreamRun, images: int, task: int, epoch: int) -> Tensor:
    """The order in which an epoch takes the images of a task."""
    return torch.randperm(images, generator=generator(run.seed, "order", task, epoch))


def check_network(run: StreamRun, stream: Stream) -> None:
    """Raises ValueError if the network cannot have the method's activation."""
    with trial_build():
        make_model(network_of(run), stream.shape, stream.classes, run.parsed_method.activation)


def make_network(run: StreamRun, stream: Stream, *purpose: str | int) -> nn.Module:
    """The network, initialised for a purpose: ("init", task)."""
    with seeded(run.seed, *purpose):
        model = make_model(network_of(run), stream.shape, stream.classes, run.parsed_method.activation)
        if run.settings.init != "default":  # which it has been given already
            INITS.get(run.settings.init)(model)
        return model


class Streams:
    """The streams of runs and the Gram matrices of their inputs; runs that differ in their method only share them."""

    def __init__(self, dataset: Dataset | None) -> None:
        self._dataset = dataset
        self._streams: dict[tuple[object, ...], Stream] = {}
        self._grams: dict[int, Gram | None] = {}

    def stream(self, run: StreamRun) -> Stream:
        """The stream of a run."""
        settings = run.settings
        key = (run.benchmark, run.seed, settings.images, settings.inputs)
        if key not in self._streams:
            build = benchmark_of(run).stream
            self._streams[key] = build(self._dataset, seed=run.seed, images=settings.images, scaling=settings.inputs)
        return self._streams[key]

    def gram(self, stream: Stream) -> Gram | None:
        """The Gram matrix of a stream's inputs, where it makes training faster."""
        if id(stream) not in self._grams:
            first = stream.task(0)
            self._grams[id(stream)] = Gram.of(first.floats(first.inputs).flatten(1))
        return self._grams[id(stream)]
