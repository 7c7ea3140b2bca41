"""Runs on streams, as a kind of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from adalin.data import Dataset, load
from adalin.engine import NETWORK, presets
from adalin.methods import Method
from adalin.models import check_model
from adalin.runs import (
    Comparison,
    Description,
    Kind,
    Run,
    Session,
    Trial,
    check_comparison,
    check_different,
)
from adalin.settings import SupervisedSettings
from adalin.streams import Benchmark, get_benchmark, has_benchmark
from adalin.supervised._build import (
    StreamRun,
    benchmark_of,
    check_network,
    make_network,
    network_of,
    steps_in,
    streams_of,
    task_of,
)
from adalin.supervised._loop import train_run
from adalin.supervised._manifest import manifest
from adalin.supervised._trial import try_run


class Supervised(Kind[SupervisedSettings]):
    """A method on a stream of tasks."""

    name = "supervised"
    summary = "networks on a stream of tasks"
    settings = SupervisedSettings
    knows_all_names = True

    def owns(self, benchmark: str) -> bool:
        return has_benchmark(benchmark)

    def define(
        self, benchmark: str, methods: Sequence[str], seeds: Sequence[int], *, data: Any = None, **chosen: Any
    ) -> Comparison:
        check_comparison(methods, seeds)
        found = get_benchmark(benchmark)
        settings = choose_settings(found, chosen)
        alike = {method: with_lr(settings, method, chosen.get("lr")) for method in methods}
        for method in methods:  # before the data is read, which takes longer
            _make(found, method, next(iter(seeds)), alike[method])
        dataset = None if found.dataset is None else load(found.dataset, data)
        if dataset is not None:
            alike = {method: _on(dataset, own, asked=chosen.get("images")) for method, own in alike.items()}
        runs = [_make(found, method, seed, alike[method]) for method in methods for seed in seeds]
        check_different(runs)
        stream = streams_of(dataset).stream(runs[0])  # which may refuse a number of images
        engines = {run.method: check_network(run, stream) for run in runs[:: len(seeds)]}
        first = task_of(runs[0], stream, 0)
        if presets.get(settings.preset).best_validation and first.validation is None:
            raise ValueError(
                f"preset {settings.preset} needs images for validation, which {found.id} has none of; "
                "if it can, give it fewer images for training with --images"
            )
        names = {method: str(engine) for method, engine in engines.items()}
        return Comparison(runs, dataset, names, any(engine.name == "module" for engine in engines.values()))

    def example(self, benchmark: str, method: str, seed: int, **chosen: Any) -> StreamRun:
        found = get_benchmark(benchmark)
        return _make(found, method, seed, with_lr(choose_settings(found, chosen), method, chosen.get("lr")))

    def read(self, definition: Mapping[str, Any]) -> StreamRun:
        values = dict(definition)
        benchmark, method, seed = (values.pop(name) for name in ("benchmark", "method", "seed"))
        return _make(get_benchmark(benchmark), method, seed, SupervisedSettings(**values))

    def describe(self, run: StreamRun) -> Description:
        benchmark = benchmark_of(run)
        is_newest = get_benchmark(benchmark.name) is benchmark
        return Description(
            benchmark=benchmark.name,
            title=benchmark.title or benchmark.name,
            summary=benchmark.summary,
            network=network_of(run),
            command=("adalin", "run", benchmark.name if is_newest else benchmark.id),
            settings=run.settings.chosen() | {"model": network_of(run)},
            own=benchmark.settings.chosen() | {"model": benchmark.model},
            score="online_accuracy",
            test_score="test_accuracy",
            chance=benchmark.chance,
            shows_plasticity=not benchmark.grows,
            dataset=benchmark.dataset,
        )

    def steps_of(self, run: StreamRun, tasks: int) -> int:
        if benchmark_of(run).grows and run.settings.steps is None:
            return sum(steps_in(run, task) for task in range(tasks))
        return tasks * steps_in(run, 0)

    def disk_bytes(self, run: StreamRun) -> int:
        return 300_000_000 if network_of(run) == "resnet18" else super().disk_bytes(run)

    can_be_monitored = True

    def train(self, run: StreamRun, session: Session) -> None:
        name = benchmark_of(run).dataset
        dataset = None if name is None else load(name, session.data)
        if dataset is not None and run.settings.data != dataset.sha256:
            raise ValueError(f"{run.folder} was defined for other data than {dataset.source}")
        streams = streams_of(dataset)
        engine = check_network(run, streams.stream(run))
        made = manifest(run, dataset, session.hardware, engine, threads=torch.get_num_threads())
        with session.opened(run, made) as folder:
            if folder is not None:
                train_run(run, folder, streams, session)

    def network(self, run: StreamRun, tensors: Mapping[str, Tensor], data: Any = None) -> nn.Module:
        name = benchmark_of(run).dataset
        stream = streams_of(None if name is None else load(name, data)).stream(run)
        model = make_network(run, stream, "init", 0)
        with torch.no_grad():
            # Not by the state dict, where a tensor that layers share has several names.
            for name, value in chain(model.named_parameters(), model.named_buffers()):
                value.copy_(tensors[NETWORK + name])
        return model

    def trial(self, run: StreamRun, session: Session) -> Trial:
        name = benchmark_of(run).dataset
        return try_run(run, streams_of(None if name is None else load(name, session.data)), session.hardware)


def choose_settings(benchmark: Benchmark, chosen: Mapping[str, Any]) -> SupervisedSettings:
    """The benchmark's settings with those that are chosen (not None) in their place."""
    given = SupervisedSettings.given(chosen)
    if "epochs" in given and "steps" in given:
        raise ValueError("give epochs or steps, not both")
    preset = presets.get(given.get("preset", benchmark.settings.preset))
    values = benchmark.settings.values()
    if not preset.is_plain:
        values |= {"steps": None, "clip": None, **preset.settings}
    if "epochs" in given:  # asked for instead of the benchmark's steps
        values["steps"] = None
    return SupervisedSettings(**values | given)


def with_lr(settings: SupervisedSettings, method: str, chosen: float | None) -> SupervisedSettings:
    """The settings with the learning rate of a method: its own, the chosen one, or what its optimiser usually has."""
    optimizer = Method.parse(method).optimizer
    candidates = (optimizer.lr, chosen, optimizer.usual_lr, settings.lr)
    return replace(settings, lr=next(lr for lr in candidates if lr is not None))


def _on(dataset: Dataset, settings: SupervisedSettings, *, asked: int | None) -> SupervisedSettings:
    """The settings on a data set, which may have fewer images than the benchmark takes."""
    available = len(dataset.train_images)
    if asked is not None and asked > available:
        raise ValueError(f"images={asked}, but {dataset.source} has {available} for training")
    return replace(settings, data=dataset.sha256, images=min(settings.images, available))


def _make(benchmark: Benchmark, method: str, seed: int, settings: SupervisedSettings) -> StreamRun:
    """A run, whose settings are written in one way only."""
    presets.get(settings.preset)
    if settings.model is not None:
        check_model(settings.model)
    if settings.model == benchmark.model:
        settings = replace(settings, model=None)
    if benchmark.max_tasks is not None and settings.tasks > benchmark.max_tasks:
        raise ValueError(f"{benchmark.name} has {benchmark.max_tasks} tasks at most, not {settings.tasks}")
    return Run(kind=Supervised.name, benchmark=benchmark.id, method=method, seed=seed, settings=settings)
