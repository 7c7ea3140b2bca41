"""Benchmarks: a stream with the paper's settings, under an id whose behaviour never changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adalin._registry import Registry
from adalin.data import datasets
from adalin.settings import SupervisedSettings
from adalin.streams._class_incremental import ClassIncremental
from adalin.streams._class_split import ClassSplit
from adalin.streams._permuted import Permuted
from adalin.streams._random_label import RandomLabel
from adalin.streams._shuffled_label import ShuffledLabel
from adalin.streams._stream import Stream


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A stream, a network, and how long to train: table "Benchmarks" of the paper's appendix."""

    id: str
    """Name with a version, "-v1": a change of behaviour gets a new one."""
    summary: str
    """One line about it."""
    title: str = ""
    """Name in figures: "Permuted MNIST"; empty for the name."""
    stream: Callable[..., Stream]
    """Builder of its tasks: (dataset, *, seed, images, scaling) -> stream."""
    dataset: str | None
    """Name of the data set that the stream gets; None for a stream that brings its own data."""
    model: str = "mlp"
    """Name of the network."""
    settings: SupervisedSettings
    """Settings of its runs where nobody chooses others."""
    grows: bool = False
    """Whether a task has the images of all tasks before it, too."""
    max_tasks: int | None = None
    """Largest number of tasks that it has."""
    chance: float = 0.1
    """Accuracy of a constant answer in a task; of ten classes by default."""
    paper: str = ""
    """Paper that used it first."""

    def __post_init__(self) -> None:
        name, _, version = str(self.id).rpartition("-v")
        if not name or not version.isdigit():
            raise ValueError(f"a benchmark's id ends in its version, such as {self.id}-v1")
        if not isinstance(self.settings, SupervisedSettings):
            raise ValueError(f"the settings of {self.id} must be SupervisedSettings, not {self.settings!r}")
        if not callable(self.stream):
            raise ValueError(f"the stream of {self.id} must be a callable that builds one, not {self.stream!r}")
        if self.dataset is not None and self.dataset not in datasets():
            raise ValueError(f"{self.id} needs one of {', '.join(datasets())}, or None; not {self.dataset!r}")
        if not 0 <= self.chance < 1:
            raise ValueError(f"the chance of {self.id} must be a number from 0 to less than 1, not {self.chance}")
        if self.max_tasks is not None and self.settings.tasks > self.max_tasks:
            raise ValueError(f"{self.id} has {self.max_tasks} tasks at most, not {self.settings.tasks}")

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.rpartition("-v")[0]


_benchmarks: Registry[Benchmark] = Registry("benchmark")


def register_benchmark(benchmark: Benchmark) -> Benchmark:
    """Make a benchmark known by its id."""
    if not isinstance(benchmark, Benchmark):
        raise TypeError(f"register_benchmark takes a Benchmark, not {benchmark!r}")
    return _benchmarks.register(benchmark.id, benchmark)


def benchmarks() -> Mapping[str, Benchmark]:
    """Every registered benchmark by id."""
    return _benchmarks.listing()


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of an id, or the newest version of a name."""
    if name in _benchmarks:
        return _benchmarks.get(name)
    versions = [benchmark for benchmark in benchmarks().values() if benchmark.name == name]
    if not versions:
        raise _benchmarks.unknown(name, list(dict.fromkeys(benchmark.name for benchmark in benchmarks().values())))
    return max(versions, key=lambda benchmark: int(benchmark.id.rpartition("-v")[2]))


def has_benchmark(name: str) -> bool:
    """Whether a benchmark is known by an id or a name."""
    return name in _benchmarks or any(benchmark.name == name for benchmark in benchmarks().values())


_KUMAR, _LEWANDOWSKI = "Kumar et al. 2023", "Lewandowski et al. 2024"

for _benchmark in (
    Benchmark(
        id="permuted-mnist-v1",
        title="Permuted MNIST",
        summary="10,000 digits whose pixels are permuted anew in each task",
        stream=Permuted,
        dataset="mnist",
        settings=SupervisedSettings(tasks=400, epochs=1, images=10_000, batch_size=16, lr=1e-2),
        paper=_KUMAR,
    ),
    Benchmark(
        id="random-label-mnist-v1",
        title="Random-label MNIST",
        summary="1,200 digits with new random labels in each task",
        stream=RandomLabel,
        dataset="mnist",
        settings=SupervisedSettings(tasks=250, epochs=200, images=1_200, batch_size=16, lr=1e-2),
        paper=_KUMAR,
    ),
    Benchmark(
        id="random-label-cifar10-v1",
        title="Random-label CIFAR-10",
        summary="1,200 images with new random labels in each task",
        stream=RandomLabel,
        dataset="cifar10",
        settings=SupervisedSettings(tasks=100, epochs=700, images=1_200, batch_size=16, lr=1e-2),
        paper=_KUMAR,
    ),
    Benchmark(
        id="shuffled-label-cifar10-v1",
        title="Shuffled-label CIFAR-10",
        summary="5,000 images whose classes are renamed in each task",
        stream=ShuffledLabel,
        dataset="cifar10",
        settings=SupervisedSettings(tasks=100, epochs=20, images=5_000, batch_size=16, lr=1e-2),
        paper=_LEWANDOWSKI,
    ),
    Benchmark(
        id="class-split-cifar100-v1",
        title="Class-split CIFAR-100",
        summary="five new classes of 500 images in each task",
        stream=ClassSplit,
        dataset="cifar100",
        model="cnn",
        settings=SupervisedSettings(tasks=20, epochs=20, images=2_500, batch_size=16, lr=1e-2),
        max_tasks=20,
        chance=0.2,
        paper=_KUMAR,
    ),
    Benchmark(
        id="class-incremental-cifar100-v1",
        title="Class-incremental CIFAR-100",
        summary="five new classes of 500 images join those of all tasks before",
        stream=ClassIncremental,
        dataset="cifar100",
        model="resnet18",
        settings=SupervisedSettings(tasks=20, epochs=1, steps=6_000, images=2_500, batch_size=250, lr=1e-3, clip=0.5),
        grows=True,
        max_tasks=20,
        paper="Dohare et al. 2024",
    ),
):
    register_benchmark(_benchmark)
