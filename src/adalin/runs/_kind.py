"""A kind of runs: how they are defined, trained, tried out and described."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from adalin._registry import Registry
from adalin.data import Dataset
from adalin.settings import Settings

if TYPE_CHECKING:
    from adalin.runs._run import Run
    from adalin.runs._session import Session

Chosen = TypeVar("Chosen", bound=Settings)


@dataclass(frozen=True)
class Comparison:
    """Runs that are compared, and the data set that they need."""

    runs: "list[Run[Any]]"
    """Runs of each method with each seed."""
    dataset: Dataset | None = None
    """Data set of the runs; None if they need none."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Names, for people, of what computes the network of each method; empty where all of a kind have the same."""
    uses_hardware: bool = True
    """Whether a device or a compiler would make a difference to any of the runs."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What people read of a run, beside its settings."""

    benchmark: str
    """Name of the benchmark, without its version."""
    title: str
    """Name of the benchmark in figures."""
    summary: str
    """Benchmark in one line."""
    network: str
    """Network that is trained."""
    command: tuple[str, ...]
    """Command that makes such runs, without methods, seeds and settings."""
    settings: Mapping[str, Any]
    """Settings that a user can choose, as people read them."""
    own: Mapping[str, Any]
    """The same settings as the benchmark itself has them."""
    score: str
    """Number of a row that people compare."""
    test_score: str
    """The same number on what the network was not trained on."""
    task_name: str = "task"
    """Noun for what a row is about: task or period."""
    steps_per_task: int | None = None
    """Length of a task in figures, if people count in steps."""
    chance: float = 0.0
    """Score of a constant answer."""
    shows_plasticity: bool = False
    """Whether all tasks are equally hard, so that a score that falls means that the network learns less."""
    dataset: str | None = None
    """Name of the data set that it is trained on, if there is one."""
    source: str = "its own data"
    """Origin of its data if there is no data set."""


@dataclass(frozen=True)
class Trial:
    """What a few seconds of training tell of a run's cost."""

    seconds_per_step: float
    """Seconds of one step of one run."""
    seconds_per_task: float
    """Seconds that the end of a task takes, beyond its steps."""
    row_bytes: int
    """Size of a row on disk."""
    checkpoint_bytes: int
    """Size of a checkpoint on disk."""
    buffer_bytes: int = 0
    """Size of a run's replay buffer on disk, at its end."""


class Kind(ABC, Generic[Chosen]):
    """One way to make runs. `kinds` has all of them by name."""

    name: ClassVar[str]
    """Name, which its runs have as `Run.kind`."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that used it first."""
    settings: type[Chosen]
    """Class of its runs' settings."""
    place_options: ClassVar[tuple[str, ...]] = ()
    """Further options of `define`, which say on what its runs are made and become part of the benchmark's name."""
    uses_hardware: ClassVar[bool] = True
    """Whether a device and a compiler can be chosen."""
    can_be_monitored: ClassVar[bool] = False
    """Whether looks and probes can be written beside its rows."""
    knows_all_names: ClassVar[bool] = False
    """Whether its benchmarks have names that it knows, so that it can tell what somebody may have meant."""

    @abstractmethod
    def owns(self, benchmark: str) -> bool:
        """Whether runs on a benchmark are of this kind."""

    @abstractmethod
    def define(
        self, benchmark: str, methods: Sequence[str], seeds: Sequence[int], *, data: Any = None, **chosen: Any
    ) -> Comparison:
        """The runs of a comparison; what is wrong with them is told before anything starts.

        Settings that are left out, or None, are the benchmark's.
        """

    @abstractmethod
    def example(self, benchmark: str, method: str, seed: int, **chosen: Any) -> "Run[Chosen]":
        """One run as `define` makes it, but as if there were no data and no simulator."""

    @abstractmethod
    def read(self, definition: Mapping[str, Any]) -> "Run[Chosen]":
        """The run that `Run.definition` came from; raises ValueError or TypeError for anything else."""

    @abstractmethod
    def describe(self, run: "Run[Chosen]") -> Description:
        """What people read of a run."""

    @abstractmethod
    def steps_of(self, run: "Run[Chosen]", tasks: int) -> int:
        """Steps of the first tasks together."""

    def steps_in_task(self, run: "Run[Chosen]", step: int) -> int:
        """Steps that a position inside a task counts for."""
        return step

    @abstractmethod
    def train(self, run: "Run[Chosen]", session: "Session") -> None:
        """Train a run to its end, in this process."""

    @abstractmethod
    def network(self, run: "Run[Chosen]", tensors: Mapping[str, Tensor], data: Any = None) -> nn.Module:
        """The network of a run as a checkpoint's tensors have it, whatever engine has trained it."""

    @abstractmethod
    def trial(self, run: "Run[Chosen]", session: "Session") -> Trial:
        """Train such a run for a few seconds, in a temporary folder."""

    def disk_bytes(self, run: "Run[Chosen]") -> int:
        """Space for its rows and checkpoints, roughly."""
        return 4_000_000


kinds: Registry[Kind[Any]] = Registry("kind of runs", plugins=False)
"""Every kind of runs by name; adalin.supervised and adalin.rl register theirs when they are imported."""


def kind_of(benchmark: object) -> Kind[Any]:
    """The kind of runs on a benchmark; of an unknown one the kind that can tell which benchmarks there are."""
    registered = list(kinds.listing().values())
    if not registered:
        raise ValueError("no kind of runs is known yet: import adalin.executors first, which brings all of them")
    if not isinstance(benchmark, str):
        raise ValueError(f"a benchmark's name is a text, not {benchmark!r}")
    owners = [kind for kind in registered if kind.owns(benchmark)]
    if len(owners) > 1:
        names = " and ".join(sorted(kind.name for kind in owners))
        raise ValueError(f"{benchmark!r} can be read as a benchmark of {names}: register it under another id")
    return next(iter(owners or [kind for kind in registered if kind.knows_all_names] or registered))
