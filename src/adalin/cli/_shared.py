"""What several commands need: options, plugins, training with progress, tables."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

if TYPE_CHECKING:
    from adalin.data import Dataset
    from adalin.executors import Executor
    from adalin.training import AnyRun, Hardware, Result

Plugins = Annotated[
    tuple[str, ...],
    tyro.conf.arg(help="Modules to import first, which register streams, methods, activations or metrics of your own."),
]
Picture = Annotated[Path | None, tyro.conf.arg(help="Write the curves to this PNG, PDF or SVG file.")]
Workers = Annotated[
    int | None,
    tyro.conf.arg(
        help="Processes, each with one thread; by default one per core. On a cluster: jobs, by default as many as Ray "
        "has room for, or about 32 on Slurm."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """For --executor slurm and ray, which need a folder --out that all machines see."""

    partition: str | None = None
    """Slurm's."""
    time: int = 240
    """Minutes that Slurm gives a job; when they are over it saves and is queued again."""
    cpus: int = 1
    """CPUs per job, and processes that train its runs."""
    gpus: int = 0
    """GPUs per job."""
    memory: float | None = None
    """Gigabytes per job."""
    ray_address: str | None = None
    """Of a Ray cluster; else $RAY_ADDRESS, else one is started on this machine."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Where and how runs are trained. Their numbers do not depend on it, but for a little on `device` and `compile`."""

    out: Path = Path("runs")
    """Folder of the runs."""
    data: Path | None = None
    """Folder of the data sets; else $ADALIN_DATA, else the user's cache. "bundled" for 5,000 digits of MNIST."""
    workers: Workers = None
    checkpoint_seconds: float = 60.0
    """How much work may be lost if the process is killed."""
    device: str = "cpu"
    """Is cpu; or cuda, for networks that are trained by autograd. MLPs in stacks, and SAC, stay on the CPU."""
    compile: bool = False
    """Networks that are trained by autograd go through torch.compile."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Also write the rows there while training."""
    plugin: Plugins = ()
    executor: Literal["local", "slurm", "ray"] = "local"
    """Where: processes on this machine, or jobs on a cluster."""
    sync_to: Path | None = None
    """Copy the runs to this folder as they are trained, and go on from there. On a cluster without a common --out it is
    the folder that all machines see, and --out is one on each machine's own disk."""
    retries: int = 2
    """How often a run that dies is started again before it has got any further."""
    cluster: ClusterOptions = field(default_factory=ClusterOptions)

    def prepare(self) -> None:
        from adalin.training import check_workers

        import_plugins(self.plugin)
        check_workers(self.processes)
        if self.retries < 0:
            raise ValueError(f"retries must be at least 0, not {self.retries}")
        if self.executor == "local":
            _ = self.hardware  # which refuses what is not there; another machine may have it
            for name, value in vars(self.cluster).items():
                if value != getattr(ClusterOptions, name):
                    raise ValueError(f"--{name.replace('_', '-')} is for a cluster: --executor slurm or ray")

    @property
    def processes(self) -> int:
        """On this machine."""
        from adalin.training._execute import cores

        return cores() if self.workers is None else self.workers

    def make_executor(self) -> "Executor":
        from adalin.executors import Local, Ray, Slurm

        options = self.cluster
        shared: dict[str, Any] = {name: getattr(options, name) for name in ("cpus", "gpus", "memory")}
        shared["retries"] = self.retries
        if self.executor == "slurm":
            return Slurm(partition=options.partition, minutes=options.time, **shared)
        if self.executor == "ray":
            return Ray(address=options.ray_address, **shared)
        return Local(retries=self.retries)

    @property
    def hardware(self) -> "Hardware":
        from adalin.training import Hardware

        return Hardware(self.device, self.compile)

    def say_data(self, dataset: "Dataset | None", console: Console) -> None:
        """What is trained on: the bundled digits may take MNIST's place."""
        if dataset is not None:
            hint = "; for the real MNIST: adalin data fetch mnist" if dataset.bundled and self.data is None else ""
            console.print(f"data: {dataset.source}{hint}", soft_wrap=True)

    def train(self, runs: "Sequence[AnyRun]", console: Console) -> "tuple[list[Result], int]":
        """What has come of the runs, and the exit code: 130 if stopped, 1 if something went wrong."""
        from adalin.executors import Work
        from adalin.report import RunProgress, open_loggers
        from adalin.training import Result, RunFolder, RunFolderError

        with open_loggers(self.log, self.out) as loggers, RunProgress(runs, console) as progress:

            def report(event: str, run: "AnyRun", details: dict[str, Any]) -> None:
                for tell in (progress.report, *loggers):
                    tell(event, run, details)

            work = Work(
                runs=runs,
                out=self.out,
                sync_to=self.sync_to,
                data=self.data,
                workers=self.workers,
                checkpoint_seconds=self.checkpoint_seconds,
                plugins=self.plugin,
                device=self.device,
                compile=self.compile,
            )
            stopped = self.make_executor().train(work, report)
        results = []
        for run in runs:
            # Those that were not begun have no folder, and what is wrong with a damaged one has been reported.
            with contextlib.suppress(RunFolderError):
                results.append(Result.open(RunFolder(work.shared / run.folder), run))
        for message in progress.errors:
            complain(message)
        if stopped:
            console.print("stopped and saved; the same command goes on")
            return results, 130
        if not progress.errors and progress.made_no_step:
            rows = f"{sum(len(result.rows) for result in results)} {runs[0].task_name}s"
            console.print(f"everything was done before: {rows} in {len(results)} runs")
        return results, 1 if progress.errors else 0


@dataclass(frozen=True, kw_only=True)
class Settings(Training):
    """What runs have in common, whatever is compared."""

    tasks: int | None = None
    """By default the benchmark's, as for all that follows without a default."""
    epochs: int | None = None
    """Per task."""
    images: int | None = None
    """Per task."""
    inputs: str | None = None
    """How pixels are scaled: unit ([0, 1]) or kumar2023 (standardised as in that paper)."""
    init: str | None = None
    """First weights: default (torch's) or he-normal."""
    steps: int | None = None
    """Gradient steps per task, instead of epochs."""
    clip: float | None = None
    """Scale gradients with a larger norm down to it."""
    model: str | None = None
    """Another network than the benchmark's: mlp, mlp-256, cnn, resnet18, resnet18-narrow."""
    preset: str = "plain"
    """dohare2024: that paper's momentum, schedule, augmentation and selection by validation."""
    precision: str = "float32"
    """Or bfloat16: products in mixed precision, where networks are trained by autograd."""

    def settings(self) -> dict[str, Any]:
        """As `define_runs` takes them."""
        names = ("tasks", "epochs", "images", "inputs", "init", "steps", "clip", "model", "preset", "precision")
        return {name: getattr(self, name) for name in names}


def complain(message: str) -> None:
    print(f"adalin: {message}", file=sys.stderr)


def import_plugins(names: tuple[str, ...]) -> None:
    if names and str(Path.cwd()) not in sys.path:  # of an installed command it is not there; workers get the same path
        sys.path.insert(0, str(Path.cwd()))
    for name in names:
        wrong = f"there is no plugin {name!r}: give the name of a module"
        if name.startswith(".") or "/" in name or name.endswith(".py"):  # a file's
            raise ValueError(f"{wrong}: {Path(name).stem}")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
            raise ValueError(f"{wrong} that Python can import") from None


def find(place: Path) -> "tuple[list[Result], list[str]]":
    """The results in a folder or file, at least one, and what is wrong with others."""
    from adalin.report import read_results

    if not place.exists():
        raise ValueError(f"there is no folder {place}")
    results, problems = read_results(place)
    if not results:
        raise ValueError(problems[0] if problems else f"there are no runs in {place}; `adalin run` makes some")
    return results, problems


def show(results: "list[Result]", console: Console, picture: Path | None = None, metric: str | None = None) -> None:
    """A table for each benchmark, and its curves."""
    from adalin.report import by_benchmark, curves_figure, results_table, save_figure

    benchmarks = by_benchmark(results)
    for (benchmark, source), summaries in benchmarks.items():
        console.print(results_table(summaries, f"{benchmark} on {source}"))
    if picture is None or not any(result.rows for result in results):
        return
    drawn = {
        place: summaries
        for place, summaries in benchmarks.items()
        if any(summary.has(metric or summary.run.score) for summary in summaries)
    }
    if not drawn and metric is None:
        console.print(f"no picture: there is no {results[0].run.score} yet")
    elif not drawn:
        measured = dict.fromkeys(name for one in results for row in one.rows for name in row)
        known = [name for name in measured if any(one.has(name) for members in benchmarks.values() for one in members)]
        raise ValueError(f"{metric!r} is no number that these runs have; they have {', '.join(known)}")
    for number, ((benchmark, source), summaries) in enumerate(drawn.items(), 1):
        path = picture if len(drawn) == 1 else picture.with_stem(f"{picture.stem}-{number}")
        save_figure(curves_figure(summaries, title=benchmark, note=f"data: {source}", metric=metric), path)
        console.print(f"picture: {path}", soft_wrap=True)
