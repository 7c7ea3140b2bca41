"""What is common to all runs, whatever they train: a definition, a folder, rows."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

from adalin.methods import Method

if TYPE_CHECKING:
    from adalin.data import Dataset
    from adalin.training._hardware import Hardware
    from adalin.training._run_folder import RunFolder

KINDS = {"sac": "adalin.rl:SACRun"}
"""Where runs are defined that are not on a stream, by the first word of their benchmark's name."""

ENDED = ("done", "diverged")
"""The states of runs that have nothing left to do."""

LARGEST = 3e38
"""What is more is not finite in float32."""

Report = Callable[[str, "AnyRun", dict[str, Any]], None]
"""Called with what happened, the run, and details:

- "resumed": `steps` were made before; "steps": `steps` more have been made by the run's stack;
- "row": a task is over; "done", "stopped", "diverged": the run has ended, here or before, at a position;
- "warning", "error": `message`; and a `cause` where another attempt may end better: "death" of the process, "crash" (an
  exception that nobody expected), "in use" by another process, "copy" (what was made could not be copied to where
  all see it).
"""


@dataclass(frozen=True)
class Conditions:
    """Under which runs are trained; their numbers do not depend on them, but for a little on the hardware."""

    open_folder: "Callable[[AnyRun, dict[str, Any]], RunFolder | None]"
    """Given a run and its manifest, its folder, locked; None if something is wrong with it, which has been reported."""
    data: str | Path | None
    report: Report
    stop: Callable[[], bool]
    checkpoint_seconds: float
    hardware: "Hardware"


@dataclass(frozen=True)
class Trial:
    """What a few seconds of training tell."""

    seconds_per_step: float
    """Of one run."""
    seconds_per_task: float
    """What ends a task, beyond its steps."""
    row_bytes: int
    checkpoint_bytes: int
    buffer_bytes: int = 0
    """Of one run, at its end."""


class AnyRun(ABC):
    """A frozen dataclass that says all that defines a run. Its numbers do not depend on anything else."""

    score: ClassVar[str]
    """The number of a row that people compare."""
    test_score: ClassVar[str]
    """The same on what it was not trained on."""
    task_name: ClassVar[str] = "task"
    """What a row is about."""
    benchmark: str
    method: str
    seed: int
    tasks: int
    """How many rows it will have; a finished run can be given more, and goes on."""

    def __getstate__(self) -> dict[str, Any]:
        """Without what is cached: a plugin's functions may not be picklable."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @abstractmethod
    def steps_of(self, tasks: int) -> int:
        """Steps of the first tasks together."""

    def steps_at(self, position: dict[str, Any]) -> int:
        """Steps made before the position of a checkpoint."""
        return min(self.steps_of(position["task"]) + position["step"], self.total_steps)

    def state_at(self, position: dict[str, Any]) -> str:
        """Is "done" with all its tasks, even if it diverged in one beyond them; else what the checkpoint says."""
        if position["task"] >= self.tasks:
            return "done"
        state = str(position.get("state", "running"))
        return "stopped" if state == "done" else state  # with fewer tasks, as were wanted then

    @property
    @abstractmethod
    def stack_key(self) -> tuple[Any, ...]:
        """Runs with the same key may be trained together."""

    @property
    @abstractmethod
    def benchmark_name(self) -> str:
        """Without a version."""

    @property
    def dataset_name(self) -> str | None:
        """Of the data set that it is trained on, if there is one."""
        return None

    @property
    def source(self) -> str:
        """Where its data come from if there is no data set."""
        return "its own data"

    @property
    @abstractmethod
    def about(self) -> str:
        """The benchmark in one line."""

    @property
    @abstractmethod
    def shows_plasticity(self) -> bool:
        """Whether its tasks are equally hard, so that a score that falls means that it learns less."""

    @property
    def chance(self) -> float:
        """Score of a constant answer."""
        return 0.0

    @property
    @abstractmethod
    def network(self) -> str:
        """What is trained."""

    @property
    @abstractmethod
    def command(self) -> list[str]:
        """What makes such runs, without methods, seeds and settings."""

    @property
    def steps_per_task(self) -> int | None:
        """What a task is in figures, if people count in steps."""
        return None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What can be chosen beside method and seed, by the names of the command's options."""

    @abstractmethod
    def own_settings(self) -> dict[str, Any]:
        """The benchmark's."""

    @classmethod
    @abstractmethod
    def train(
        cls,
        runs: Sequence[Any],
        conditions: "Conditions",
    ) -> None:
        """Train runs with the same key to their end, in this process."""

    @classmethod
    @abstractmethod
    def try_out(cls, runs: Sequence[Any], dataset: "Dataset | None", hardware: "Hardware | None") -> "Trial":
        """Train a stack for a few seconds, in a temporary folder."""

    @property
    def disk_bytes(self) -> int:
        """What its rows and checkpoints will need, roughly."""
        return 4_000_000

    @property
    def total_steps(self) -> int:
        """From the start to the end."""
        return self.steps_of(self.tasks)

    def config(self) -> dict[str, Any]:
        """What is fixed for good: all but the number of tasks."""
        return {name: value for name, value in asdict(self).items() if name != "tasks"}  # type: ignore[call-overload]

    def definition(self) -> dict[str, Any]:
        """As `read_run` takes it."""
        return {**self.config(), "tasks": self.tasks}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Of the settings that have one."""
        return {field.name: field.default for field in fields(cls) if field.default is not MISSING}  # type: ignore[arg-type]

    @property
    def folder(self) -> Path:
        """Where it goes below the folder of all runs."""
        # Settings at their default are left out, so that a new one does not rename the folders of old runs.
        defaults = self.defaults()
        shared = {
            name: value for name, value in self.config().items() if name != "seed" and value != defaults.get(name)
        }
        digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:8]
        method = re.sub(r"[^A-Za-z0-9.+_-]", "_", self.method)
        return Path(self.benchmark, f"{method}-{digest}", f"seed-{self.seed}")

    @cached_property
    def parsed_method(self) -> Method:
        """The method that the text stands for."""
        return Method.parse(self.method)

    def check_counts(self, least: dict[str, int]) -> None:
        """Raises ValueError unless fields are whole numbers of at least so much; NumPy's become Python's."""
        for name, bound in least.items():
            value = getattr(self, name)
            if not isinstance(value, SupportsIndex) or isinstance(value, bool) or value.__index__() < bound:
                raise ValueError(f"{name.replace('_', '-')} must be a whole number of at least {bound}, not {value!r}")
            object.__setattr__(self, name, value.__index__())


def check_comparison(methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Raises ValueError unless these are lists of different things."""
    if isinstance(methods, str):
        raise ValueError(f"methods are a list of texts, [{methods!r}], not a text")
    for name, values in (("methods", methods), ("seeds", seeds)):
        if not len(values):
            raise ValueError(f"give at least one of {name}")
        if len(set(values)) < len(values):
            raise ValueError(f"{name} are given twice: {', '.join(map(str, values))}")


def check_different(runs: Sequence[AnyRun], methods: Sequence[str]) -> None:
    """Raises ValueError if two runs are the same."""
    if len({run.folder for run in runs}) < len(runs):
        raise ValueError(f"some methods are the same, written differently: {', '.join(methods)}")


def read_run(config: dict[str, Any]) -> AnyRun:
    """The run of a config, with its tasks."""
    kind = KINDS.get(str(config.get("benchmark")).partition("-")[0], "adalin.training:Run")
    module, _, name = kind.partition(":")
    run: AnyRun = getattr(import_module(module), name)(**config)
    return run
