"""Train and compare from Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adalin.data import Dataset, load
from adalin.streams import get_benchmark
from adalin.training._any_run import ENDED, AnyRun, Report, check_comparison, check_different
from adalin.training._execute import execute
from adalin.training._hardware import Hardware
from adalin.training._preset import get_preset
from adalin.training._resume import START, last_checkpoint, wanted_run
from adalin.training._run import Run
from adalin.training._run_folder import RunFolder, RunFolderError

NOT_BEGUN = {**START, "state": "new"}
"""The position of a run without a checkpoint."""


@dataclass(frozen=True, eq=False)
class Result:
    """What has come of a run so far."""

    run: AnyRun
    rows: list[dict[str, Any]]
    """One per finished task."""
    position: dict[str, Any]
    """Of the last checkpoint."""
    manifest: dict[str, Any]
    core_seconds: float = 0.0
    """What it has taken; 0 if nobody knows."""

    @classmethod
    def open(cls, folder: RunFolder, run: AnyRun | None = None) -> "Result":
        """Read a folder; without a run, as the one with as many tasks as were ever asked for."""
        manifest = folder.manifest()
        try:
            run = run or wanted_run(folder)
            source = manifest["data"] and manifest["data"]["source"]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            hint = "; if a plugin brings it, name that with --plugin" if str(error).startswith("unknown ") else ""
            raise RunFolderError(f"{folder.path} is not a run that adalin knows: {error}{hint}") from None
        assert source is None or isinstance(source, str)
        checkpoint, rows = last_checkpoint(folder)
        position = NOT_BEGUN if checkpoint is None else checkpoint.position
        return cls(run, rows[: run.tasks], position, manifest, folder.cost())

    @property
    def source(self) -> str:
        """The data or simulator it was trained on, for people."""
        data = self.manifest["data"]
        return self.run.source if data is None else data["source"]

    @property
    def state(self) -> str:
        """Is "done", "diverged" or "unfinished"."""
        state = self.run.state_at(self.position)
        return state if state in ENDED else "unfinished"


def find_results(root: Path) -> tuple[list[Result], list[str]]:
    """Every run in and below a folder, and what is wrong with those that cannot be read."""
    results, problems = [], []
    for folder in RunFolder.find(root):
        try:
            results.append(Result.open(folder))
        except RunFolderError as error:
            problems.append(str(error))
    return results, problems


def define_runs(
    benchmark: str, methods: Sequence[str], seeds: Sequence[int], *, data: str | Path | None = None, **settings: Any
) -> tuple[list[Run], Dataset | None]:
    """The runs of a comparison and the data set they need; what is wrong with them is told before anything starts."""
    check_comparison(methods, seeds)
    dataset_name = get_benchmark(benchmark).dataset
    for method in methods:  # before the data is read, which takes longer
        Run.define(benchmark, method, seeds[0], None, **settings)
    dataset = None if dataset_name is None else load(dataset_name, data)
    runs = [Run.define(benchmark, method, seed, dataset, **settings) for method in methods for seed in seeds]
    check_different(runs, methods)
    stream = runs[0].make_stream(dataset)  # which may refuse a number of images
    for run in runs[:: len(seeds)]:  # one of each method
        run.check_network(stream)
    preset = get_preset(runs[0].preset)
    if preset.best_validation and stream.task(0).validation is None:
        raise ValueError(
            f"preset {preset.name} needs images for validation, which {runs[0].benchmark} has none of; "
            "if it can, give it fewer images for training with --images"
        )
    return runs, dataset


def run(
    benchmark: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    out: str | Path = "runs",
    data: str | Path | None = None,
    workers: int = 1,
    hardware: Hardware | None = None,
    report: Report = lambda event, run, details: None,
    **settings: Any,
) -> list[Result]:
    """Train every method with every seed, or go on where an earlier call stopped; returns the results.

    Settings are those of `Run`, such as tasks, epochs, batch_size, lr and images; left out, the benchmark's.
    Ctrl-C saves what there is before it raises KeyboardInterrupt.

    Examples:
        >>> import tempfile
        >>> from adalin.training import run
        >>> with tempfile.TemporaryDirectory() as out:
        ...     results = run("random-label-mnist", ["baseline", "adalin"], [3], out=out, tasks=1, epochs=1, images=64)
        ...     [len(result.rows) for result in results]
        [1, 1]
    """
    runs, _ = define_runs(benchmark, methods, seeds, data=data, **settings)
    errors: list[str] = []

    def watch(event: str, run: AnyRun, details: dict[str, Any]) -> None:
        if event == "error":
            errors.append(details["message"])
        report(event, run, details)

    stopped = execute(runs, out=Path(out), data=data, workers=workers, report=watch, hardware=hardware)
    if errors:
        raise RunFolderError("\n".join(dict.fromkeys(errors)))
    if stopped:
        raise KeyboardInterrupt("stopped and saved; the same call goes on")
    return [Result.open(RunFolder(Path(out) / run.folder), run) for run in runs]
