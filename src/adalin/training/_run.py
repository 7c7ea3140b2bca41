"""A run: what defines it, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import nn

from adalin._seeds import seeded
from adalin.data import Dataset, load
from adalin.methods import Method
from adalin.models import INITS, check_model, make_model
from adalin.models._build import trial_build
from adalin.nn._bases import did_you_mean
from adalin.streams import SCALINGS, Benchmark, Stream, get_benchmark
from adalin.training._any_run import LARGEST, AnyRun, Conditions, Trial
from adalin.training._hardware import PRECISIONS, Hardware
from adalin.training._preset import get_preset

SETTINGS = (
    "tasks",
    "epochs",
    "steps",
    "lr",
    "batch_size",
    "images",
    "inputs",
    "init",
    "clip",
    "model",
    "preset",
    "precision",
)


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """A method on a stream of tasks: (benchmark, method, hyper-parameters, seed)."""

    score: ClassVar[str] = "online_accuracy"
    test_score: ClassVar[str] = "test_accuracy"

    benchmark: str
    """A benchmark's id with its version."""
    method: str
    """The text of a method."""
    seed: int
    tasks: int
    """How many; a finished run can be given more, and goes on."""
    epochs: int
    batch_size: int
    lr: float
    images: int
    """Per task."""
    inputs: str = "unit"
    """How pixels are scaled: "unit" ([0, 1]) or "kumar2023"."""
    init: str = "default"
    """First weights: torch's default, or "he-normal"."""
    steps: int | None = None
    """Gradient steps per task; without, as many as the epochs take."""
    clip: float | None = None
    """Gradients with a larger norm are scaled down to it."""
    model: str | None = None
    """The network; without, the benchmark's."""
    preset: str = "plain"
    """A way to train beyond SGD."""
    precision: str = "float32"
    """Or "bfloat16": products in mixed precision."""
    data: str | None = None
    """SHA-256 of the data set, so that runs on other data are other runs."""

    def __post_init__(self) -> None:
        benchmark = get_benchmark(self.benchmark)
        counts = {"seed": 0, "tasks": 1, "epochs": 1, "batch_size": 1, "images": 1}
        self.check_counts(counts if self.steps is None else counts | {"steps": 1})
        if not (isinstance(self.lr, float | int) and 0 < self.lr < LARGEST):
            raise ValueError(f"lr must be a positive number, not {self.lr!r}")
        if self.clip is not None and not (isinstance(self.clip, float | int) and 0 < self.clip < LARGEST):
            raise ValueError(f"clip must be a positive number, not {self.clip!r}")
        if self.model is not None:
            check_model(self.model)
        get_preset(self.preset)
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}")
        if self.inputs not in SCALINGS:
            raise ValueError(f"inputs must be one of {', '.join(SCALINGS)}, not {self.inputs!r}")
        if self.init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)}, not {self.init!r}")
        if benchmark.max_tasks is not None and self.tasks > benchmark.max_tasks:
            raise ValueError(f"{benchmark.name} has {benchmark.max_tasks} tasks at most, not {self.tasks}")
        # Written in one way only, so that the same method is the same run.
        object.__setattr__(self, "benchmark", benchmark.id)
        object.__setattr__(self, "method", str(Method.parse(self.method)))
        object.__setattr__(self, "lr", float(self.lr))
        if self.clip is not None:
            object.__setattr__(self, "clip", float(self.clip))
        if self.model == benchmark.model:
            object.__setattr__(self, "model", None)

    @classmethod
    def define(cls, benchmark: str, method: str, seed: int, dataset: Dataset | None, **settings: Any) -> "Run":
        """A run with the benchmark's own settings wherever none (or None) is given."""
        chosen = get_benchmark(benchmark)
        known = [field.name for field in fields(cls) if field.name not in ("benchmark", "method", "seed", "data")]
        for name in settings:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ValueError(f"there is no setting {name!r}{hint}; known: {', '.join(known)}")
        names = ("tasks", "epochs", "batch_size", "lr", "images", "steps", "clip")
        values = {name: getattr(chosen, name) for name in names}
        preset = get_preset(settings.get("preset") or "plain")
        if not preset.is_plain:
            values |= {"steps": None, "clip": None, **preset.settings}
        if settings.get("epochs") is not None:  # asked for instead of the benchmark's steps
            if settings.get("steps") is not None:
                raise ValueError("give epochs or steps, not both")
            values["steps"] = None
        if dataset is not None:
            available = len(dataset.train_images)
            wanted = settings.get("images")
            if wanted is not None and wanted > available:
                raise ValueError(f"images={wanted}, but {dataset.source} has {available} for training")
            values |= {"data": dataset.sha256, "images": min(values["images"], available)}
        values |= {name: value for name, value in settings.items() if value is not None}
        return cls(benchmark=chosen.id, method=method, seed=seed, **values)

    def images_in(self, task: int) -> int:
        """How many images a task is trained on."""
        return self.images * (task + 1 if self._benchmark.grows else 1)

    def steps_in(self, task: int) -> int:
        """Gradient steps of a task."""
        return self.steps or self.epochs * -(-self.images_in(task) // self.batch_size)

    def steps_of(self, tasks: int) -> int:
        """Gradient steps of the first tasks together."""
        return sum(self.steps_in(task) for task in range(tasks))

    @property
    def stack_key(self) -> tuple[Any, ...]:
        """Runs with the same key have, as far as can be told without data, networks that can be stacked."""
        method = self.parsed_method
        doubled = (method.activation.expansion, getattr(method.activation, "match", None))
        by_outputs = all(rule.scales_only for rule in method.rules)  # may be trained by those of its first layer
        settings = (self.images, self.inputs, self.epochs, self.steps, self.batch_size, self.tasks, self.model)
        return (self.benchmark, *settings, self.clip, self.preset, self.precision, doubled, by_outputs)

    @cached_property
    def _benchmark(self) -> Benchmark:
        return get_benchmark(self.benchmark)

    @property
    def benchmark_name(self) -> str:
        return self._benchmark.name

    @property
    def dataset_name(self) -> str | None:
        return self._benchmark.dataset

    @property
    def about(self) -> str:
        return self._benchmark.summary

    @property
    def shows_plasticity(self) -> bool:
        return not self._benchmark.grows

    @property
    def network(self) -> str:
        return self.model or self._benchmark.model

    @property
    def chance(self) -> float:
        return self._benchmark.chance

    @property
    def command(self) -> list[str]:
        name = self._benchmark.name
        return ["adalin", "run", name if get_benchmark(name) is self._benchmark else self.benchmark]

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SETTINGS} | {"model": self.model or self._benchmark.model}

    def own_settings(self) -> dict[str, Any]:
        defaults = self.defaults()
        return {name: getattr(self._benchmark, name, defaults.get(name)) for name in SETTINGS}

    @property
    def disk_bytes(self) -> int:
        is_large = (self.model or self._benchmark.model) == "resnet18"
        return 300_000_000 if is_large else super().disk_bytes

    @classmethod
    def try_out(cls, runs: Sequence["Run"], dataset: Dataset | None, hardware: Hardware | None) -> Trial:
        from adalin.training._plan import try_streams  # here, as it trains runs

        return try_streams(runs, dataset, hardware)

    @classmethod
    def train(cls, runs: Sequence["Run"], conditions: Conditions) -> None:
        # Here, as those are defined by runs.
        from adalin.training._manifest import manifest
        from adalin.training._train import Streams, is_stacked, train_runs

        name = runs[0].dataset_name
        dataset = None if name is None else load(name, conditions.data)
        streams = Streams(dataset)
        folders = []
        for run in runs:
            if dataset is not None and run.data != dataset.sha256:
                raise ValueError(f"{run.folder} was defined for other data than {dataset.source}")
            hardware = conditions.hardware
            if hardware != Hardware() and is_stacked(run, streams):
                hardware = Hardware()
            made = manifest(run, dataset, hardware, threads=torch.get_num_threads())
            if (folder := conditions.open_folder(run, made)) is not None:
                folders.append((run, folder))
        del dataset  # a hundred megabytes or two that streams do not need
        train_runs(
            folders,
            streams,
            report=conditions.report,
            stop=conditions.stop,
            checkpoint_seconds=conditions.checkpoint_seconds,
            hardware=conditions.hardware,
        )

    def make_stream(self, dataset: Dataset | None) -> Stream:
        """The tasks of this run."""
        return self._benchmark.stream(dataset, seed=self.seed, images=self.images, scaling=self.inputs)

    def check_network(self, stream: Stream) -> None:
        """Raises ValueError if the network cannot have the method's activation."""
        name, activation = self.model or self._benchmark.model, self.parsed_method.activation
        with trial_build():
            make_model(name, stream.shape, stream.classes, activation)

    def make_model(self, stream: Stream, *purpose: str | int) -> nn.Module:
        """The network, initialised for a purpose: ("init", task)."""
        with seeded(self.seed, *purpose):
            name = self.model or self._benchmark.model
            model = make_model(name, stream.shape, stream.classes, self.parsed_method.activation)
            if self.init != "default":  # which it has been given already
                INITS[self.init](model)
            return model
