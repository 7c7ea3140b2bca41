"""show, list, export, import, report."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from adalin.cli._shared import Picture, Plugins, complain, find, import_plugins, show

if TYPE_CHECKING:
    from adalin.training import Result


@dataclass(frozen=True)
class Show:
    """The state and the results of the runs in a folder."""

    folder: Positional[Path] = Path("runs")
    """Of runs, or of Parquet files made by `adalin export`; or one such file."""
    picture: Picture = None
    metric: str | None = None
    """What the picture shows; without one, the online accuracy, or the return."""
    render: Path | None = None
    """Play an episode of each agent that SAC trained, and write frames of it to this PNG, PDF or SVG file."""
    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        import_plugins(self.plugin)
        if self.metric is not None and self.picture is None:
            raise ValueError("--metric is what a picture shows; name its file with --picture")
        results, problems = find(self.folder)
        show(results, console, self.picture, self.metric)
        if self.render is not None:
            self._render(results, self.render, console)
        for problem in problems:
            complain(problem)
        return 1 if problems else 0

    def _render(self, results: "list[Result]", path: Path, console: Console) -> None:
        from adalin.report import check_figure_path, contact_sheet, save_figure
        from adalin.rl import SACRun, play
        from adalin.training import RunFolder

        check_figure_path(path)
        runs = {result.run.folder: result.run for result in results if isinstance(result.run, SACRun)}
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


@dataclass(frozen=True)
class List:
    """Benchmarks, methods, metrics, networks, presets and activations, each with one line and its paper."""

    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        import_plugins(self.plugin)
        from rich.table import Table

        from adalin import activations
        from adalin.methods import methods
        from adalin.metrics import metrics
        from adalin.models import models
        from adalin.streams import benchmarks
        from adalin.training import PRESETS

        def table(title: str, rows: list[tuple[str, str, str]]) -> None:
            grid = Table(box=None, show_header=False, title=title, title_justify="left", title_style="bold")
            grid.add_column(overflow="fold")
            for row in rows:
                grid.add_row(*row)
            console.print(grid)

        sac = ("sac", "Soft Actor-Critic in any environment of gymnasium: --env Hopper-v4", "Haarnoja et al. 2018")
        table("benchmarks", [*((name, one.summary, one.paper) for name, one in benchmarks().items()), sac])
        table("methods", [(name, part.summary, part.paper) for name, part in methods().items()])
        table("metrics", [(name, one.summary, one.paper) for name, one in metrics().items()])
        table("networks", [(name, summary, "") for name, summary in models().items()])
        table("presets", [(name, preset.summary, "") for name, preset in PRESETS.items()])
        table("activations", [(name, one.summary, one.paper) for name, one in activations().items()])
        return 0


@dataclass(frozen=True)
class Export:
    """The rows of the runs in a folder as one file: Parquet, which `show` and `report` read too, or CSV."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Of the runs."""
    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """Ends in .parquet (rows, configurations and manifests) or .csv (plain numbers only)."""
    per_neuron: tuple[str, ...] | None = None
    """Keep alpha and saturation of each neuron, most of a Parquet file, of these methods only; "none" for none."""
    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        import_plugins(self.plugin)
        from adalin.methods import Method
        from adalin.report import write_results

        kept = None
        if self.per_neuron is not None:  # as runs write them
            kept = [str(Method.parse(method)) for method in self.per_neuron if method != "none"]
        results, problems = find(self.folder)
        write_results(results, self.file, per_neuron=kept)
        rows = sum(len(result.rows) for result in results)
        console.print(f"{rows} rows of {len(results)} runs: {self.file}", soft_wrap=True)
        for problem in problems:
            complain(problem)
        return 1 if problems else 0


@dataclass(frozen=True)
class Import:
    """Recorded runs as folders, so that `run`, `reproduce` and `sweep` train only what is not recorded."""

    source: Annotated[Positional[Path], arg(metavar="SOURCE")]
    """A Parquet file made by `adalin export`, or a folder of such files."""
    out: Path = Path("runs")
    """Folder of the runs; those that it has already stay as they are."""
    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        import_plugins(self.plugin)
        from adalin.report import unpack_results

        results, problems = find(self.source)
        unfinished = sum(result.state == "unfinished" for result in results)
        new = len(unpack_results(results, self.out))
        before = len(results) - unfinished - new
        console.print(f"runs that are new in {self.out}: {new}, there before: {before}, unfinished: {unfinished}")
        for problem in problems:
            complain(problem)
        return 1 if problems else 0


@dataclass(frozen=True)
class Report:
    """A page about the runs in a folder: who keeps plasticity where, curves, heat maps, tables, claims, the paper's
    figures."""

    folder: Positional[Path] = Path("runs")
    """Of runs, or of Parquet files made by `adalin export`."""
    out: Path | None = None
    """Folder of the page; by default `report` inside the folder."""
    open: bool = False
    """Show it in the browser."""
    markdown: tuple[Path, ...] = ()
    """Instead of a page, write tables into these Markdown files, between the marks they must have, and draw the
    pictures that they show by a recipe's name, such as main-figure.png."""
    plugin: Plugins = ()

    def __call__(self, console: Console) -> int:
        import_plugins(self.plugin)
        from adalin.studies import publish, write_markdown

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
        for problem in problems:
            complain(problem)
        return 1 if problems else 0
