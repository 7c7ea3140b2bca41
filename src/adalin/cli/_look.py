"""show, list, export, import, report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from tyro.conf import Positional

from adalin.cli._options import Metavar, allow
from adalin.cli._shared import TableFormat, WithPicture, WithPlugins, complain_of, find, show

if TYPE_CHECKING:
    from adalin.runs import Result


@dataclass(frozen=True, kw_only=True)
class ShowCommand(WithPlugins, WithPicture):
    """The state and the results of the runs in a folder."""

    folder: Positional[Path] = Path("runs")
    """Folder of runs, or of Parquet files made by `adalin export`; or one such file."""
    metric: str | None = None
    """Number that the picture shows; by default the online accuracy, or the return."""
    format: TableFormat = "terminal"
    """Form of the tables: terminal, or markdown and latex for a page and a paper."""
    render: Path | None = None
    """File for frames of an episode, played by each agent that SAC trained: its name ends in .png, .pdf or .svg."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        if self.metric is not None and self.picture is None:
            raise ValueError("--metric is what a picture shows; name its file with --picture")
        results, problems = find(self.folder)
        show(results, console, self.picture, self.metric, self.format)
        if self.render is not None:
            self._render(results, self.render, console)
        return complain_of(problems)

    def _render(self, results: "list[Result]", path: Path, console: Console) -> None:
        from adalin.report import check_figure_path, contact_sheet, save_figure
        from adalin.rl import SoftActorCritic, play
        from adalin.runs import RunFolder

        check_figure_path(path)
        runs = {result.run.folder: result.run for result in results if result.run.kind == SoftActorCritic.name}
        agents = [
            (run, folder)
            for folder in RunFolder.find(self.folder.absolute())
            for place, run in runs.items()
            if folder.path.parts[-len(place.parts) :] == place.parts and folder.has_network
        ]
        if not agents:
            raise ValueError(f"there are no agents of SAC in {self.folder}; `adalin run sac` trains some")
        for number, (run, folder) in enumerate(agents, 1):
            own = path if len(agents) == 1 else path.with_stem(f"{path.stem}-{number}")
            save_figure(contact_sheet(run, play(run, folder)), own)
            console.print(f"episode of {run.method}, seed {run.seed}: {own}", soft_wrap=True)


Section = Literal["benchmarks", "methods", "metrics", "networks", "presets", "activations"]


@dataclass(frozen=True, kw_only=True)
class ListCommand(WithPlugins):
    """Benchmarks, methods, metrics, networks, presets and activations, each with one line and its paper."""

    section: Positional[Section | None] = None
    """One of them alone; methods then say what they need and where they work."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        from rich.table import Table

        from adalin import activations
        from adalin.engine import presets
        from adalin.methods import method_rows, methods
        from adalin.metrics import metrics
        from adalin.models import models
        from adalin.rl import SoftActorCritic
        from adalin.streams import benchmarks

        def table(title: str, rows: Sequence[tuple[str, ...]]) -> None:
            if self.section not in (None, title):
                return
            grid = Table(box=None, show_header=False, title=title, title_justify="left", title_style="bold")
            grid.add_column(overflow="fold")
            for row in rows:
                grid.add_row(*row)
            console.print(grid)

        sac = (SoftActorCritic.name, SoftActorCritic.summary, SoftActorCritic.paper)
        table("benchmarks", [*((name, entry.summary, entry.paper) for name, entry in benchmarks().items()), sac])
        if self.section == "methods":
            table("methods", method_rows())
            return 0
        table("methods", [(name, part.summary, part.paper) for name, part in methods().items()])
        table("metrics", [(name, metric.summary, metric.paper) for name, metric in metrics().items()])
        table("networks", [(name, summary, "") for name, summary in models().items()])
        table("presets", [(name, preset.summary, "") for name, preset in presets.listing().items()])
        table("activations", [(name, entry.summary, entry.paper) for name, entry in activations().items()])
        return 0


@dataclass(frozen=True, kw_only=True)
class ExportCommand(WithPlugins):
    """The rows of the runs in a folder as one file: Parquet, which `show` and `report` read too, or CSV."""

    folder: Positional[Path]
    """Folder of the runs."""
    file: Positional[Path]
    """File to write: .parquet (rows, configurations and manifests) or .csv (plain numbers only)."""
    per_neuron: Annotated[tuple[str, ...] | None, Metavar("METHOD")] = None
    """Methods whose alpha and saturation of each neuron are kept, most of a Parquet file: by default all, or none."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        from adalin.methods import Method
        from adalin.report import write_results

        if self.per_neuron is not None and self.file.suffix == ".csv":
            raise ValueError("--per-neuron is for .parquet: a .csv has plain numbers only")
        kept = None
        if self.per_neuron is not None:  # as runs write them
            kept = [str(Method.parse(method)) for method in self.per_neuron if method != "none"]
        results, problems = find(self.folder)
        write_results(results, self.file, per_neuron=kept)
        rows = sum(len(result.rows) for result in results)
        console.print(f"{rows} rows of {len(results)} runs: {self.file}", soft_wrap=True)
        return complain_of(problems)


@dataclass(frozen=True, kw_only=True)
class ImportCommand(WithPlugins):
    """Recorded runs as folders, so that `run`, `reproduce` and `sweep` train only what is not recorded."""

    source: Positional[Path]
    """A Parquet file made by `adalin export`, or a folder of such files."""
    out: Path = Path("runs")
    """Folder of the runs; those that it has already stay as they are."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        from adalin.report import unpack_results

        results, problems = find(self.source)
        unfinished = sum(result.state == "unfinished" for result in results)
        unpacked, failures = unpack_results(results, self.out)
        problems += failures
        before = len(results) - unfinished - len(unpacked) - len(failures)
        counts = f"{len(unpacked)}, there before: {before}, unfinished: {unfinished}"
        console.print(f"runs that are new in {self.out}: {counts}")
        return complain_of(problems)


@dataclass(frozen=True, kw_only=True)
class ReportCommand(WithPlugins):
    """A page about the runs in a folder: who keeps plasticity where, curves, heat maps, tables, claims, the paper's
    figures."""

    folder: Positional[Path] = Path("runs")
    """Folder of runs, or of Parquet files made by `adalin export`."""
    out: Path | None = None
    """Folder of the page; by default `report` inside the folder."""
    open: bool = False
    """Display of the page in the browser."""
    markdown: tuple[Path, ...] = ()
    """Markdown files that get tables between their marks, in place of a page; pictures that they show by a recipe's
    name, such as main-figure.png, are drawn."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        from adalin.studies import publish, write_markdown

        if self.markdown:
            allow(self, {"markdown", "plugin"}, "on --markdown")
        results, problems = find(self.folder)
        for path in self.markdown:
            write_markdown(results, path)
            console.print(f"tables: {path}", soft_wrap=True)
        if not self.markdown:
            place = self.folder if self.folder.is_dir() else self.folder.parent
            command = shlex.join(["adalin", "report", str(self.folder)])
            page = publish(results, self.out or place / "report", command=command)
            console.print(f"page: {page}", soft_wrap=True)
            if self.open:
                import webbrowser

                webbrowser.open(page.absolute().as_uri())
        return complain_of(problems)
