"""The command line: parse, call, print. Nothing heavy is imported before it is known what to do."""

import contextlib
import io
import os
import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

try:
    import tyro
    from rich.console import Console
    from tyro.conf import FlagConversionOff, Positional, subcommand
except ImportError as missing:
    sys.exit(f"adalin: the command line needs {missing.name}: pip install 'adalin[lab]'")

if TYPE_CHECKING:
    from adalin.data import Dataset
    from adalin.training import Result
    from adalin.training import Run as DefinedRun

DEMO_METHODS = ("baseline", "adalin", "tanh", "adalin-tanh")


def _cores() -> int:
    return os.cpu_count() or 1


Plugins = Annotated[
    tuple[str, ...],
    tyro.conf.arg(help="Modules to import first, which register streams, methods, activations or metrics of your own."),
]
Pictures = Annotated[Path | None, tyro.conf.arg(help="Write the curves to this PNG, PDF or SVG file.")]


@dataclass(frozen=True, kw_only=True)
class Settings:
    benchmark: Positional[str]
    """A benchmark's name: see `adalin list`."""
    methods: tuple[str, ...] = ("baseline", "adalin")
    """Activations and rules, joined by +, options after a colon: adalin, adalin-tanh+l2, l2:strength=0.001."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """One run for each method and seed."""
    base: str = "relu"
    """The base activation of those methods that have one and do not name it."""
    tasks: int | None = None
    """By default the benchmark's, as for the next four."""
    epochs: int | None = None
    """Per task."""
    lr: float | None = None
    """Learning rate."""
    batch_size: int | None = None
    """Images per step."""
    images: int | None = None
    """Per task."""
    inputs: str = "unit"
    """How pixels are scaled: unit ([0, 1]) or kumar2023 (standardised as in that paper)."""
    init: str = "default"
    """First weights: torch's default, or he-normal."""
    data: Path | None = None
    """Folder of the data sets; else $ADALIN_DATA, else the user's cache. "bundled" for 5,000 digits of MNIST."""
    workers: int = field(default_factory=_cores)
    """Processes, each with one thread."""
    plugin: Plugins = ()

    def define(self) -> "tuple[list[DefinedRun], Dataset | None]":
        _import_plugins(self.plugin)
        from adalin.methods import Method
        from adalin.training import check_workers, define_runs

        check_workers(self.workers)

        names = ("tasks", "epochs", "lr", "batch_size", "images", "inputs", "init")
        settings = {name: getattr(self, name) for name in names}
        methods = [str(Method.parse(method, base=self.base)) for method in self.methods]
        return define_runs(self.benchmark, methods, self.seeds, data=self.data, **settings)


@dataclass(frozen=True, kw_only=True)
class Run(Settings):
    """Train methods on a benchmark, or go on where the same command stopped."""

    out: Path = Path("runs")
    """Folder of the runs."""
    picture: Pictures = None
    checkpoint_seconds: float = 60.0
    """How much work may be lost if the process is killed."""

    def __call__(self, console: Console) -> int:
        if self.picture is not None:
            from adalin.report import check_figure_path

            check_figure_path(self.picture)
        runs, dataset = self.define()
        if dataset is not None:
            hint = "; for the real MNIST: adalin data fetch mnist" if dataset.bundled and self.data is None else ""
            console.print(f"data: {dataset.source}{hint}", soft_wrap=True)
        return _train(runs, self, console)


@dataclass(frozen=True, kw_only=True)
class Demo:
    """ReLU and Tanh lose plasticity on random-label MNIST, with AdaLin they do not. Bundled digits, minutes."""

    out: Path = Path("runs/demo")
    """Folder of the runs."""
    picture: Pictures = None
    tasks: int = 10
    epochs: int = 200
    seeds: tuple[int, ...] = (3, 4, 5)
    workers: int = field(default_factory=_cores)

    def __call__(self, console: Console) -> int:
        from adalin.data import BUNDLED

        run = Run(
            benchmark="random-label-mnist",
            methods=DEMO_METHODS,
            seeds=self.seeds,
            tasks=self.tasks,
            epochs=self.epochs,
            data=Path(BUNDLED),
            workers=self.workers,
            out=self.out,
            picture=self.picture or self.out / "demo.png",
        )
        console.print(
            "In every task 1,200 digits get new random labels. By chance the accuracy is 0.10.", highlight=False
        )
        return run(console)


@dataclass(frozen=True, kw_only=True)
class Plan(Settings):
    """What such a `run` would take: steps, time and disk, from a few seconds of training."""

    def __call__(self, console: Console) -> int:
        from adalin.report import duration
        from adalin.training import plan

        runs, dataset = self.define()
        result = plan(runs, dataset, workers=self.workers)
        stacks = ", ".join(map(str, result.stacks))
        console.print(f"{len(runs)} runs of {runs[0].tasks} tasks, {result.steps:,} steps in all")
        console.print(f"{len(result.stacks)} stacks of {stacks} runs on {self.workers} processes")
        console.print(f"about {duration(result.seconds)} on this machine as it is now")
        console.print(f"about {result.disk_bytes / 1e6:.1f} MB of disk")
        return 0


@dataclass(frozen=True)
class Show:
    """The state and the results of the runs in a folder."""

    folder: Positional[Path] = Path("runs")
    picture: Pictures = None
    metric: str | None = None
    """What the picture shows; without one, the online accuracy."""
    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        _import_plugins(self.plugin)
        if self.metric is not None and self.picture is None:
            raise ValueError("--metric is what a picture shows; name its file with --picture")
        results, problems = _find(self.folder)
        _show(results, console, self.picture, self.metric or "online_accuracy")
        for problem in problems:
            _complain(problem)
        return 1 if problems else 0


@dataclass(frozen=True)
class List:
    """Benchmarks, methods, activations and metrics, each with one line and its paper."""

    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        _import_plugins(self.plugin)
        from rich.table import Table

        from adalin import activations
        from adalin.methods import methods
        from adalin.metrics import metrics
        from adalin.streams import benchmarks

        def table(title: str, rows: list[tuple[str, str, str]]) -> None:
            grid = Table(box=None, show_header=False, title=title, title_justify="left", title_style="bold")
            grid.add_column(overflow="fold")
            for row in rows:
                grid.add_row(*row)
            console.print(grid)

        table("benchmarks", [(name, one.summary, one.paper) for name, one in benchmarks().items()])
        table("methods", [(name, part.summary, part.paper) for name, part in methods().items()])
        table("metrics", [(name, one.summary, one.paper) for name, one in metrics().items()])
        table("activations", [(name, one.summary, one.paper) for name, one in activations().items()])
        return 0


@dataclass(frozen=True)
class Fetch:
    """Download data sets from their official hosts and check them."""

    names: Positional[tuple[Literal["mnist", "cifar10", "cifar100"], ...]] = ("mnist", "cifar10", "cifar100")
    data: Path | None = None
    """The folder; else $ADALIN_DATA, else the user's cache."""

    def __call__(self, console: Console) -> int:
        from adalin.data import fetch

        for name in self.names:
            console.print(str(fetch(name, self.data)), soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Verify:
    """Read data sets and check their content."""

    names: Positional[tuple[Literal["mnist", "cifar10", "cifar100"], ...]] = ("mnist", "cifar10", "cifar100")
    data: Path | None = None
    """The folder; else $ADALIN_DATA, else the user's cache."""

    def __call__(self, console: Console) -> int:
        from adalin.data import DataError, verify

        wrong = 0
        for name in self.names:
            try:
                console.print(str(verify(name, self.data)), soft_wrap=True)
            except DataError as error:
                _complain(str(error))
                wrong = 1
        return wrong


@dataclass(frozen=True)
class Where:
    """The folder that data is looked for in, and what is there."""

    data: Path | None = None
    """The folder to look at instead."""

    def __call__(self, console: Console) -> int:
        from adalin.data import where

        console.print(str(where(self.data)), soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Data:
    """MNIST, CIFAR-10 and CIFAR-100: fetch, verify, where."""

    command: (
        Annotated[Fetch, subcommand("fetch")]
        | Annotated[Verify, subcommand("verify")]
        | Annotated[Where, subcommand("where")]
    )

    def __call__(self, console: Console) -> int:
        return self.command(console)


Command = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Run, subcommand("run")]
    | Annotated[Plan, subcommand("plan")]
    | Annotated[Show, subcommand("show")]
    | Annotated[List, subcommand("list")]
    | Annotated[Data, subcommand("data")]
)


def main(arguments: list[str] | None = None) -> None:
    command = _parse(sys.argv[1:] if arguments is None else arguments)
    wide = 160 if not sys.stdout.isatty() and "COLUMNS" not in os.environ else None  # a pipe has no width
    console = Console(markup=False, highlight=False, width=wide)  # [relu(x), relu(-x)] is no markup
    try:
        sys.exit(command(console))
    except KeyboardInterrupt:
        _complain("interrupted; the same command goes on from the last checkpoint")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if not _is_users(error):
            raise
        _complain(str(error))
        sys.exit(2)


def _parse(arguments: list[str]) -> "Demo | Run | Plan | Show | List | Data":
    """tyro's boxes become one line that says what is wrong."""
    if arguments == ["--version"]:
        from adalin import __version__

        print(f"adalin {__version__}")
        sys.exit(0)
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written):
            return tyro.cli(
                Command,
                args=arguments,
                prog="adalin",
                description="Networks that keep learning: benchmarks of plasticity, at the speed of the hardware.",
                config=(FlagConversionOff, tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stop:
        if stop.code not in (0, None):
            text = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
            lines = [re.sub(r"[│╭╮╰╯]|─+|-{4,}", " ", line).strip() for line in text.splitlines()]
            line = " ".join(" ".join(lines[1:]).split())
            _complain(re.split(r" Argument helptext:| Got errors:", line)[0])
        raise


def _is_users(error: Exception) -> bool:
    """Whether an error says what the user can do; others are ours, and keep their traceback."""
    from adalin.training import RunFolderError

    return isinstance(error, ValueError | RunFolderError | OSError)


def _complain(message: str) -> None:
    print(f"adalin: {message}", file=sys.stderr)


def _import_plugins(names: tuple[str, ...]) -> None:
    if names and str(Path.cwd()) not in sys.path:  # of an installed command it is not there; workers get the same path
        sys.path.insert(0, str(Path.cwd()))
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
            hint = f": {name.removesuffix('.py')}" if name.endswith(".py") else " that Python can import"
            raise ValueError(f"there is no plugin {name!r}: give the name of a module{hint}") from None


def _find(folder: Path) -> "tuple[list[Result], list[str]]":
    """The runs in a folder, at least one, and what is wrong with others."""
    from adalin.training import find_results

    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    results, problems = find_results(folder)
    if not results:
        raise ValueError(problems[0] if problems else f"there are no runs in {folder}; `adalin run` makes some")
    return results, problems


def _train(runs: "list[DefinedRun]", command: Run, console: Console) -> int:
    from adalin.report import RunProgress
    from adalin.training import Result, RunFolder, RunFolderError, execute

    with RunProgress(runs, console) as progress:
        stopped = execute(
            runs,
            out=command.out,
            data=command.data,
            workers=command.workers,
            report=progress.report,
            checkpoint_seconds=command.checkpoint_seconds,
            plugins=command.plugin,
        )
    results = []
    for run in runs:
        # Those that were not begun have no folder, and what is wrong with a damaged one has been reported.
        with contextlib.suppress(RunFolderError):
            results.append(Result.open(RunFolder(command.out / run.folder), run))
    if results:
        _show(results, console, command.picture)
    for message in progress.errors:
        _complain(message)
    if stopped:
        console.print("stopped and saved; the same command goes on")
        return 130
    if not progress.errors and progress.made_no_step:
        tasks = sum(len(result.rows) for result in results)
        console.print(f"everything was done before: {tasks} tasks in {len(results)} runs")
    return 1 if progress.errors else 0


def _show(
    results: "list[Result]", console: Console, picture: Path | None = None, metric: str = "online_accuracy"
) -> None:
    from adalin.report import curves_figure, results_table, save_figure, summarise

    benchmarks = {(result.run.benchmark, result.source): None for result in results}
    for number, (benchmark, source) in enumerate(benchmarks):
        summaries = summarise([one for one in results if (one.run.benchmark, one.source) == (benchmark, source)])
        console.print(results_table(summaries, f"{benchmark} on {source}"))
        if picture is None or not any(summary.tasks for summary in summaries):
            continue
        if not any(summary.has(metric) for summary in summaries):
            measured = dict.fromkeys(name for one in results for row in one.rows[:1] for name in row)
            known = [name for name in measured if any(summary.has(name) for summary in summaries)]
            raise ValueError(f"{metric!r} is no number that these runs have; they have {', '.join(known)}")
        path = picture if len(benchmarks) == 1 else picture.with_stem(f"{picture.stem}-{number + 1}")
        save_figure(curves_figure(summaries, title=benchmark, note=f"data: {source}", metric=metric), path)
        console.print(f"picture: {path}", soft_wrap=True)


if __name__ == "__main__":
    main()
