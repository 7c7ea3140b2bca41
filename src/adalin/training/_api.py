"""Train and compare from Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from adalin.data import Dataset, load
from adalin.streams import get_benchmark
from adalin.training._execute import execute
from adalin.training._run import Run
from adalin.training._run_folder import RunFolder, RunFolderError
from adalin.training._train import Report


@dataclass(frozen=True)
class Result:
    """What a run's folder holds."""

    run: Run
    folder: RunFolder

    @classmethod
    def open(cls, folder: RunFolder) -> "Result":
        """Of a folder as it is, with as many tasks as were ever asked for."""
        manifest = folder.manifest()
        tasks = max(start["tasks"] for start in (manifest, *manifest.get("resumed", ())) if "tasks" in start)
        try:
            return cls(Run(**folder.config(), tasks=tasks), folder)
        except (TypeError, ValueError) as error:
            raise RunFolderError(f"{folder.path} is no run that this version of adalin knows: {error}") from None

    @property
    def source(self) -> str:
        """The data it was trained on, for people."""
        data = self.folder.manifest()["data"]
        return "its own data" if data is None else data["source"]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One per finished task."""
        return self.folder.rows()[: self.run.tasks]

    @cached_property
    def position(self) -> dict[str, Any]:
        checkpoint = self.folder.load(lambda message: None)
        return {"task": 0, "step": 0, "state": "new"} if checkpoint is None else checkpoint.position

    @property
    def state(self) -> str:
        """Is "done", "diverged" or "unfinished"."""
        if self.position["state"] == "diverged":
            return "diverged"
        return "done" if self.position["task"] >= self.run.tasks else "unfinished"


def define_runs(
    benchmark: str, methods: Sequence[str], seeds: Sequence[int], *, data: str | Path | None = None, **settings: Any
) -> tuple[list[Run], Dataset | None]:
    """The runs of a comparison and the data set they need; what is wrong with them is told before anything starts."""
    for name, values in (("methods", methods), ("seeds", seeds)):
        if not values:
            raise ValueError(f"give at least one of {name}")
        if len(set(values)) < len(values):
            raise ValueError(f"{name} are given twice: {', '.join(map(str, values))}")
    dataset_name = get_benchmark(benchmark).dataset
    for method in methods:  # before the data is read, which takes longer
        Run.define(benchmark, method, seeds[0], None, **settings)
    dataset = None if dataset_name is None else load(dataset_name, data)
    runs = [Run.define(benchmark, method, seed, dataset, **settings) for method in methods for seed in seeds]
    if len({run.folder for run in runs}) < len(runs):
        raise ValueError(f"some methods are the same, written differently: {', '.join(methods)}")
    return runs, dataset


def run(
    benchmark: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    out: str | Path = "runs",
    data: str | Path | None = None,
    workers: int = 1,
    report: Report = lambda event, run, details: None,
    **settings: Any,
) -> list[Result]:
    """Train every method with every seed, or go on where an earlier call stopped; returns the results.

    Settings are those of `Run`: tasks, epochs, batch_size, lr, images, inputs, init; left out, the benchmark's.

    Example:
        >>> import tempfile
        >>> from adalin.training import run
        >>> with tempfile.TemporaryDirectory() as out:
        ...     results = run("random-label-mnist", ["baseline", "adalin"], [3], out=out, tasks=1, epochs=1, images=64)
        ...     [len(result.rows) for result in results]
        [1, 1]
    """
    runs, _ = define_runs(benchmark, methods, seeds, data=data, **settings)
    errors: list[str] = []

    def watch(event: str, run: Run, details: dict[str, Any]) -> None:
        if event == "error":
            errors.append(details["message"])
        report(event, run, details)

    execute(runs, out=Path(out), data=data, workers=workers, report=watch)
    if errors:
        raise RunFolderError(errors[0])
    return [Result(run, RunFolder(Path(out) / run.folder)) for run in runs]
