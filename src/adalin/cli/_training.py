"""Where and how runs are trained, for all commands that train: options, progress, exit codes."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from adalin.cli._options import HelpGroup, Metavar, changed
from adalin.cli._shared import Output, WithPlugins, complain_of

if TYPE_CHECKING:
    from adalin._hardware import Hardware
    from adalin.data import Dataset
    from adalin.executors import Executor
    from adalin.report import RunProgress
    from adalin.runs import Emit, Event, Result, Run, Session

OF_ONE_EXECUTOR = {"--partition": "slurm", "--time": "slurm", "--ray-address": "ray"}
MOST_RETRIES = 1_000


@dataclass(frozen=True, kw_only=True)
class Machine(WithPlugins):
    """What runs are trained on. Their numbers do not depend on it, but for a little on `device` and `compile`."""

    data: Path | None = None
    """Folder of the data sets; else $ADALIN_DATA, else the user's cache. "bundled" for 5,000 digits of MNIST."""
    workers: int | None = None
    """Processes, each with one thread; by default one per core. On a cluster: jobs, by default as many as Ray has room
    for, or about 32 on Slurm."""
    device: Annotated[str, Metavar("DEVICE")] = "cpu"
    """Device: cpu, cuda or cuda:1, for networks that are trained by autograd. Native kernels, and SAC, stay on the
    CPU."""
    compile: bool = False
    """Compilation by torch.compile of networks that are trained by autograd."""

    def prepare(self) -> None:
        """Import plugins, and refuse what is wrong before anything is read."""
        from adalin.executors import check_workers

        self.import_plugins()
        check_workers(self.processes)

    @property
    def processes(self) -> int:
        """Processes on this machine."""
        from adalin.executors import cores

        return cores() if self.workers is None else self.workers

    @property
    def hardware(self) -> "Hardware":
        """Device and compiler."""
        from adalin._hardware import Hardware

        return Hardware(self.device, self.compile)

    def describe_data(self, dataset: "Dataset | None", console: Output) -> None:
        """Say what is trained on: the bundled digits may take MNIST's place."""
        if dataset is not None:
            hint = "; for the real MNIST: adalin data fetch mnist" if dataset.bundled and self.data is None else ""
            console.print(f"data: {dataset.source}{hint}", soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Where and how runs are trained, saved and logged."""

    executor: Literal["local", "slurm", "ray"] = "local"
    """Place of training: processes on this machine, or jobs on a cluster."""
    sync_to: Path | None = None
    """Folder for copies of the runs, made as they are trained, from which they go on. On a cluster without a common
    --out it is the folder that all machines see, and --out is one on each machine's own disk."""
    retries: int = 2
    """Number of times that a run which dies is started again before it has got any further."""
    checkpoint_seconds: float = 60.0
    """Largest amount of work, in seconds, that is lost if the process is killed."""
    allow_engine_change: bool = False
    """Go on with runs that another engine or kind of processor has begun, whose numbers differ in their last digits."""
    monitor: bool = False
    """Looks and probes of every task (can these weights still learn?), in monitor.jsonl beside the rows."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Trackers that get the rows, too, while training."""

    def check(self) -> None:
        """Refuse values that no run can be trained with."""
        if self.retries < 0:
            raise ValueError(f"retries must be at least 0, not {self.retries}")
        if self.retries > MOST_RETRIES:
            raise ValueError(f"retries must be at most {MOST_RETRIES:,}, not {self.retries}")
        if not 0 <= self.checkpoint_seconds < math.inf:
            raise ValueError(f"checkpoint-seconds must be a number of at least 0, not {self.checkpoint_seconds}")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Jobs on a cluster, with --executor slurm or ray; all machines must see the folder --out, or --sync-to."""

    partition: str | None = None
    """Partition of Slurm."""
    time: int = 240
    """Minutes that Slurm gives a job; when they are over it saves and is queued again."""
    cpus: int = 1
    """CPUs per job, and processes that train its runs."""
    gpus: int = 0
    """GPUs per job."""
    memory: float | None = None
    """Gigabytes per job."""
    ray_address: Annotated[str | None, Metavar("ADDRESS")] = None
    """Address of a Ray cluster; else $RAY_ADDRESS, else one is started on this machine."""

    def check(self, executor: str) -> None:
        """Refuse options that have no effect."""
        for option in changed(self):
            if executor == "local":
                raise ValueError(f"{option} is for a cluster: --executor slurm or ray")
            if OF_ONE_EXECUTOR.get(option, executor) != executor:
                raise ValueError(f"{option} is for --executor {OF_ONE_EXECUTOR[option]}, not for {executor}")


@dataclass(frozen=True, kw_only=True)
class Training(Machine):
    """A command that trains: options, progress, exit codes."""

    out: Path = Path("runs")
    """Folder of the runs."""
    execution: Annotated[ExecutionOptions, HelpGroup("execution")] = field(default_factory=ExecutionOptions)
    cluster: Annotated[ClusterOptions, HelpGroup("cluster")] = field(default_factory=ClusterOptions)

    def prepare(self) -> None:
        """Import plugins, and refuse what is wrong before anything is read."""
        super().prepare()
        self.execution.check()
        self.cluster.check(self.execution.executor)
        if self.execution.executor == "local":
            _ = self.hardware  # which refuses what is not there; another machine may have it

    def make_executor(self) -> "Executor":
        """The place where runs are trained."""
        from adalin.executors import Local, Ray, Slurm

        options = self.cluster
        shared: dict[str, Any] = {name: getattr(options, name) for name in ("cpus", "gpus", "memory")}
        shared["retries"] = self.execution.retries
        if self.execution.executor == "slurm":
            return Slurm(partition=options.partition, minutes=options.time, **shared)
        if self.execution.executor == "ray":
            return Ray(address=options.ray_address, **shared)
        return Local(retries=self.execution.retries)

    def train(self, runs: "Sequence[Run[Any]]", console: Output) -> "tuple[list[Result], int]":
        """What has come of the runs, and the exit code: 130 if stopped, 1 if something went wrong."""
        from adalin.executors import Work, check_monitored
        from adalin.report import RunProgress, open_loggers

        if self.execution.monitor:
            check_monitored(runs)

        with (
            open_loggers(self.execution.log, self.out) as loggers,
            RunProgress(runs, console) as progress,
            console.until_saved() as reader_left,
        ):
            session, shared = self._session(reader_left), self.execution.sync_to
            work = Work(runs=runs, session=session, sync_to=shared, workers=self.workers, plugins=self.plugin)
            stopped = self.make_executor().train(work, _emitter(progress, loggers, console))
        results = _read(runs, work.shared)
        code = complain_of(progress.errors)
        if stopped:
            console.print("stopped and saved; the same command goes on")
            return results, 130
        if progress.made_no_step and not code:
            rows = f"{sum(len(result.rows) for result in results)} {runs[0].description.task_name}s"
            console.print(f"everything was done before: {rows} in {len(results)} runs")
        return results, code

    def _session(self, stop: Callable[[], bool]) -> "Session":
        from adalin.runs import Session

        return Session(
            out=self.out,
            data=self.data,
            hardware=self.hardware,
            checkpoint_seconds=self.execution.checkpoint_seconds,
            allow_engine_change=self.execution.allow_engine_change,
            monitor=self.execution.monitor,
            stop=stop,
        )


def _emitter(progress: "RunProgress", loggers: "Sequence[Emit]", console: Output) -> "Emit":
    """Tells people and loggers of events; that nobody reads any more does not end what tells."""

    def emit(event: "Event") -> None:
        try:
            progress.note(event)
        except OSError:  # a terminal that is gone
            console.on_broken_pipe()
        for logger in loggers:
            logger(event)

    return emit


def _read(runs: "Sequence[Run[Any]]", out: Path) -> "list[Result]":
    """The results of those runs that have a folder; what is wrong with a damaged one has been reported."""
    from adalin.runs import Result, RunFolder, RunFolderError

    results = []
    for run in runs:
        with contextlib.suppress(RunFolderError):
            results.append(Result.open(RunFolder(out / run.folder), run))
    return results
