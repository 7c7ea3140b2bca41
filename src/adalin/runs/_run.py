"""A run: what defines it, and nothing else."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar

from adalin.methods import Method
from adalin.runs._kind import Description, Kind, kind_of, kinds
from adalin.runs._paths import path_part
from adalin.runs._position import Position
from adalin.settings import Settings, specifications

ENDED = ("done", "diverged")
"""States of runs that have nothing left to do."""

Chosen = TypeVar("Chosen", bound=Settings, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Run(Generic[Chosen]):
    """One method with one seed on one benchmark. The numbers of a run depend on nothing else."""

    kind: str
    """Name of its kind: supervised or sac."""
    benchmark: str
    """Id of the benchmark, with its version."""
    method: str
    """Text of the method."""
    seed: int
    """Seed of all its randomness."""
    settings: Chosen
    """All that can be chosen beside method and seed."""

    def __post_init__(self) -> None:
        if not isinstance(self.seed, SupportsIndex) or isinstance(self.seed, bool) or self.seed.__index__() < 0:
            raise ValueError(f"seed must be a whole number of at least 0, not {self.seed!r}")
        object.__setattr__(self, "seed", self.seed.__index__())
        # Written in one way only, so that the same method is the same run.
        object.__setattr__(self, "method", str(Method.parse(self.method)))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is cached: a plugin's functions may not be picklable."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @cached_property
    def parsed_method(self) -> Method:
        """Method that the text stands for."""
        return Method.parse(self.method)

    @cached_property
    def description(self) -> Description:
        """What people read of such runs."""
        return self._kind.describe(self)

    @property
    def tasks(self) -> int:
        """Rows that the run will have; a finished run can be given more, and goes on."""
        return self.settings.rows

    def steps_of(self, tasks: int) -> int:
        """Steps of the first tasks together."""
        return self._kind.steps_of(self, tasks)

    def steps_at(self, position: Position) -> int:
        """Steps made before a position."""
        made = self.steps_of(position.task) + self._kind.steps_in_task(self, position.step)
        return min(made, self.total_steps)

    @cached_property
    def total_steps(self) -> int:
        """Steps from the start to the end."""
        return self.steps_of(self.tasks)

    def state_at(self, position: Position) -> str:
        """Is "done" with all its tasks, even if it diverged in a later one; else what the position says."""
        if position.task >= self.tasks:
            return "done"
        return "stopped" if position.state == "done" else position.state  # with fewer tasks, as were wanted then

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """What is fixed for good: all but the number of tasks."""
        named = {"benchmark": self.benchmark, "method": self.method, "seed": self.seed}
        return named | self.settings.defining()

    def definition(self) -> dict[str, Any]:
        """Plain values that `read_run` makes the same run of."""
        return {**self.config, "tasks": self.tasks}

    @cached_property
    def folder(self) -> Path:
        """Place of the run below the folder of all runs."""
        # Settings at their default are left out, so that a new one does not rename the folders of old runs.
        defaults = self.settings.defaults()
        shared = {name: value for name, value in self.config.items() if name != "seed" and value != defaults.get(name)}
        digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:8]
        method = re.sub(r"[^A-Za-z0-9.+_-]", "_", self.method)
        # The names of environments may have a namespace: sac-ALE/Pong-v5.
        names = self.benchmark.split("/")
        what = "benchmark" if len(names) == 1 else f"benchmark {self.benchmark!r}: part"
        places = [path_part(name, what) for name in names]
        return Path(*places, path_part(f"{method}-{digest}", "method"), f"seed-{self.seed}")

    @property
    def setting_folder(self) -> Path:
        """Folder of the runs that differ from this one in their seed only."""
        return self.folder.parent

    def with_settings(self, **changes: Any) -> "Run[Chosen]":
        """The same run with other settings."""
        return replace(self, settings=replace(self.settings, **changes))

    @property
    def disk_bytes(self) -> int:
        """Space for its rows and checkpoints, roughly."""
        return self._kind.disk_bytes(self)

    @property
    def _kind(self) -> Kind[Any]:
        return kinds.get(self.kind)


def check_comparison(methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Raises ValueError unless these are lists of different things."""
    for name, values in (("methods", methods), ("seeds", seeds)):
        if isinstance(values, str) or not isinstance(values, Collection):  # arrays of seeds are none of Python's
            raise ValueError(f"{name} are a list, not {values!r}")
        if len(values) == 0:
            raise ValueError(f"give at least one of {name}")
        if len(set(values)) < len(values):
            raise ValueError(f"{name} are given twice: {', '.join(map(str, values))}")


def check_different(runs: Sequence[Run[Any]]) -> None:
    """Raises ValueError if two runs are the same."""
    folders: dict[Path, Run[Any]] = {}
    for run in runs:
        if run.folder in folders:
            raise ValueError(f"some methods are the same, written differently: {run.method} is there twice")
        folders[run.folder] = run


def read_run(definition: Mapping[str, Any]) -> Run[Any]:
    """The run of a definition; raises ValueError or TypeError if it is none."""
    named = ("benchmark", "method", "seed", "tasks")
    for name in named:
        if name not in definition:
            raise ValueError(f"it does not say its {name}")
    kind = kind_of(definition["benchmark"])
    for name in definition:
        if name not in (*named, *specifications(kind.settings)):
            raise ValueError(f"it has a setting that this version of adalin does not know, {name[:100]!r}")
    return kind.read(definition)
