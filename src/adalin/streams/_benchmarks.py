"""Benchmarks: a stream with the paper's settings, under an id whose behaviour never changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adalin.nn._bases import did_you_mean
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
    """Ends in a version, "-v1": a change of behaviour gets a new one."""
    summary: str
    stream: Callable[..., Stream]
    """(dataset, *, seed, images, scaling) -> stream."""
    dataset: str | None
    """Name of the data set that the stream gets; None for a stream that brings its own data."""
    model: str = "mlp"
    tasks: int
    epochs: int
    images: int
    """Per task."""
    batch_size: int = 16
    lr: float = 1e-2
    steps: int | None = None
    """Per task, instead of epochs."""
    clip: float | None = None
    """Gradients are scaled down to this norm."""
    grows: bool = False
    """A task has the images of all tasks before it, too."""
    max_tasks: int | None = None
    chance: float = 0.1
    """Accuracy of a constant answer in a task; of ten classes by default."""
    paper: str = ""

    def __post_init__(self) -> None:
        name, _, version = self.id.rpartition("-v")
        if not name or not version.isdigit():
            raise ValueError(f"a benchmark's id ends in its version, such as {self.id}-v1")

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.rpartition("-v")[0]


_BENCHMARKS: dict[str, Benchmark] = {}


def register_benchmark(benchmark: Benchmark) -> Benchmark:
    """Make a benchmark known by its id."""
    if benchmark.id.startswith("sac-"):
        raise ValueError(
            f"{benchmark.id!r} would be taken for an environment that SAC is trained in: choose another id"
        )
    if benchmark.id in _BENCHMARKS:
        raise ValueError(f"a benchmark with the id {benchmark.id!r} is registered already")
    _BENCHMARKS[benchmark.id] = benchmark
    return benchmark


def benchmarks() -> Mapping[str, Benchmark]:
    """Every registered benchmark by id."""
    return MappingProxyType(_BENCHMARKS)


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of an id, or the newest version of a name."""
    if name in _BENCHMARKS:
        return _BENCHMARKS[name]
    versions = [benchmark for benchmark in _BENCHMARKS.values() if benchmark.name == name]
    if not versions:
        known = list(dict.fromkeys(benchmark.name for benchmark in _BENCHMARKS.values()))
        raise ValueError(f"unknown benchmark {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
    return max(versions, key=lambda benchmark: int(benchmark.id.rpartition("-v")[2]))


_KUMAR, _LEWANDOWSKI = "Kumar et al. 2023", "Lewandowski et al. 2024"

for _benchmark in (
    Benchmark(
        id="permuted-mnist-v1",
        summary="10,000 digits whose pixels are permuted anew in each task",
        stream=Permuted,
        dataset="mnist",
        tasks=400,
        epochs=1,
        images=10_000,
        paper=_KUMAR,
    ),
    Benchmark(
        id="random-label-mnist-v1",
        summary="1,200 digits with new random labels in each task",
        stream=RandomLabel,
        dataset="mnist",
        tasks=250,
        epochs=200,
        images=1_200,
        paper=_KUMAR,
    ),
    Benchmark(
        id="random-label-cifar10-v1",
        summary="1,200 images with new random labels in each task",
        stream=RandomLabel,
        dataset="cifar10",
        tasks=100,
        epochs=700,
        images=1_200,
        paper=_KUMAR,
    ),
    Benchmark(
        id="shuffled-label-cifar10-v1",
        summary="5,000 images whose classes are renamed in each task",
        stream=ShuffledLabel,
        dataset="cifar10",
        tasks=100,
        epochs=20,
        images=5_000,
        paper=_LEWANDOWSKI,
    ),
    Benchmark(
        id="class-split-cifar100-v1",
        summary="five new classes of 500 images in each task",
        stream=ClassSplit,
        dataset="cifar100",
        model="cnn",
        tasks=20,
        epochs=20,
        images=2_500,
        max_tasks=20,
        chance=0.2,
        paper=_KUMAR,
    ),
    Benchmark(
        id="class-incremental-cifar100-v1",
        summary="five new classes of 500 images join those of all tasks before",
        stream=ClassIncremental,
        dataset="cifar100",
        model="resnet18",
        tasks=20,
        epochs=1,
        steps=6_000,
        images=2_500,
        batch_size=250,
        lr=1e-3,
        clip=0.5,
        grows=True,
        max_tasks=20,
        paper="Dohare et al. 2024",
    ),
):
    register_benchmark(_benchmark)
