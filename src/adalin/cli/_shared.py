"""What several commands need: plugins, results of a folder, tables and pictures."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from rich.text import Text

from adalin._text import printable
from adalin.cli._options import Metavar

if TYPE_CHECKING:
    from adalin.runs import Result


@dataclass(frozen=True, kw_only=True)
class WithPlugins:
    """A command that knows what modules of the user's own register."""

    plugin: Annotated[tuple[str, ...], Metavar("MODULE")] = ()
    """Modules to import first, which register streams, methods, activations or metrics of your own."""

    def import_plugins(self) -> None:
        """Import them; raises ValueError if one is not there."""
        if self.plugin and str(Path.cwd()) not in sys.path:  # of an installed command; workers get the same path
            sys.path.insert(0, str(Path.cwd()))
        for name in self.plugin:
            _import_plugin(name)


@dataclass(frozen=True, kw_only=True)
class WithPicture:
    """A command that draws curves."""

    picture: Path | None = None
    """File for the curves: its name ends in .png, .pdf or .svg."""


class Output(Console):
    """Standard output, whose reader may leave, as `head` does. Then the program ends, but what trains saves first."""

    reader_left = False
    _is_saved = True

    @contextmanager
    def until_saved(self) -> Iterator[Callable[[], bool]]:
        """Within, a reader that leaves ends nothing; yields what tells whether it has left."""
        self._is_saved = False
        try:
            yield lambda: self.reader_left
        finally:
            self._is_saved = True

    def render_str(self, text: str, **options: Any) -> Text:
        """A text, also of a table's cell, without what files could do to the terminal."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """What rich calls when nobody reads any more."""
        self.reader_left = self.quiet = True
        discard_output()
        if self._is_saved:
            raise SystemExit(1)


def discard_output() -> None:
    """Let nothing that is still written, by Python at its end, meet a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str) -> None:
    """Say on stderr what is wrong, if anybody hears it."""
    with suppress(OSError):
        print(f"adalin: {printable(message)}", file=sys.stderr)


def complain_of(problems: Sequence[str]) -> int:
    """Say on stderr what is wrong with some runs; returns the exit code."""
    for problem in problems:
        complain(problem)
    return 1 if problems else 0


def _import_plugin(name: str) -> None:
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
    from adalin.runs import shown_path

    if not place.exists():
        raise ValueError(f"there is no folder {shown_path(place)}")
    results, problems = read_results(place)
    if not results:
        nothing = f"there are no runs in {shown_path(place)}; `adalin run` makes some"
        raise ValueError(problems[0] if problems else nothing)
    return results, problems


TableFormat = Literal["terminal", "markdown", "latex"]
"""Form of a table of results."""


def show(
    results: "list[Result]",
    console: Console,
    picture: Path | None = None,
    metric: str | None = None,
    table_format: TableFormat = "terminal",
) -> None:
    """A table for each benchmark, and its curves."""
    from adalin.report import curves_figure, latex_table, markdown_table, results_table, save_figure
    from adalin.studies import compare

    benchmarks = compare(results)
    for (benchmark, source), summaries in benchmarks.items():
        if table_format == "terminal":
            console.print(results_table(summaries, f"{benchmark} on {source}"))
        else:
            write = markdown_table if table_format == "markdown" else latex_table
            text = write(summaries, f"{summaries[0].run.description.title} on {source}")
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    if picture is None or not any(result.rows for result in results):
        return
    drawn = {
        place: summaries
        for place, summaries in benchmarks.items()
        if any(summary.has(metric or summary.run.description.score) for summary in summaries)
    }
    if not drawn and metric is None:
        console.print(f"no picture: there is no {results[0].run.description.score} yet")
    elif not drawn:
        every = [summary for summaries in benchmarks.values() for summary in summaries]
        measured = dict.fromkeys(name for result in results for row in result.rows for name in row)
        known = [name for name in measured if any(summary.has(name) for summary in every)]
        raise ValueError(f"{metric!r} is no number that these runs have; they have {', '.join(known)}")
    for number, ((benchmark, source), summaries) in enumerate(drawn.items(), 1):
        path = picture if len(drawn) == 1 else picture.with_stem(f"{picture.stem}-{number}")
        save_figure(curves_figure(summaries, title=benchmark, note=f"data: {source}", metric=metric), path)
        console.print(f"picture: {path}", soft_wrap=True)
