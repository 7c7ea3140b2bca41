"""From results to a page, and to Markdown for the documentation, both with the figures that the results give."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from matplotlib.figure import Figure

from adalin._text import duration
from adalin.report import (
    PageTitles,
    Picture,
    Summary,
    Verdict,
    mean_text,
    plasticity_slope,
    replaced,
    save_figure,
    short_commits,
    spread,
    write_page,
)
from adalin.runs import Result
from adalin.studies._choice import choice_tables
from adalin.studies._claims import judge_claims
from adalin.studies._compare import compare, compare_all
from adalin.studies._figures import find_figures
from adalin.studies._foretell import foretelling_tables
from adalin.studies._numbers import NUMBER, fill_numbers
from adalin.studies._paper import PAPER_HOURS, hyper_parameters


def marks_of(name: str) -> tuple[str, str]:
    """The lines of a Markdown file between which tables of a name are put."""
    return f"<!-- {name}: made by `adalin report --markdown` -->", f"<!-- end of {name} -->"


MARKS = marks_of("results")
"""Lines around the tables of claims, accuracies and costs."""
TITLES = PageTitles(
    claims="The paper's claims",
    choices="Choices that the paper leaves open",
)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\.png\)")
"""A picture in Markdown, and its path without the ending."""


def save_picture(figure: Figure, folder: Path, name: str) -> list[Path]:
    """A figure as PNG, PDF and SVG, in a folder that is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}{suffix}" for suffix in (".png", ".pdf", ".svg")]
    save_figure(figure, *paths)
    return paths


def publish(results: Sequence[Result], out: Path, *, command: str) -> Path:
    """The page about results, with all figures of the paper that they give; returns its path."""
    summaries = compare_all(results)
    pictures = []
    for figure in find_figures(results):
        paths = save_picture(figure.draw(), out / "figures", figure.recipe.name)
        files = tuple(path.relative_to(out) for path in paths)
        pictures.append(Picture(figure.recipe.title, files, figure.command, figure.note))
    return write_page(out, summaries, judge_claims(summaries), titles=TITLES, pictures=pictures, command=command)


def write_markdown(results: Sequence[Result], path: Path) -> None:
    """Put tables between the marks of a Markdown file, those of `TABLES`, and numbers into sentences that ask for them.

    Pictures that it shows and that have the name of a recipe, as images/main-figure.png, are drawn anew.
    """
    if not path.exists():
        raise ValueError(f"there is no file {path}: tables go between the marks of one that is there")
    text = path.read_bytes().decode()  # ends of lines stay what they are
    names = [name for name in TABLES if any(mark in text for mark in marks_of(name))]
    written = fill_numbers(text, compare_all(results))
    for name in names or ([] if NUMBER.search(text) else ["results"]):
        start, end = marks_of(name)
        if not all(text.count(mark) == 1 for mark in (start, end)) or text.index(start) > text.index(end):
            raise ValueError(f"{path} must have the lines {start!r} and {end!r} once each: tables go between them")
        before, rest = written.split(start)
        after = rest.split(end)[1]
        written = f"{before}{start}\n\n{TABLES[name](results)}\n\n{end}{after}"
    with replaced(path) as unfinished:
        unfinished.write_bytes(written.encode())
    figures = {figure.recipe.name: figure for figure in find_figures(results)}
    for shown in map(Path, IMAGE.findall(text)):
        if shown.name in figures:
            picture = path.parent / f"{shown}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            save_figure(figures[shown.name].draw(), picture)


def _result_tables(results: Sequence[Result]) -> str:
    verdicts = judge_claims(compare_all(results))
    judged = (_claims_table(verdicts), _findings_table(verdicts))
    return "\n\n".join((*judged, *_accuracy_tables(results), _cost_table(results)))


def _tables(tables: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]]) -> str:
    return "\n\n".join(_table(heads, rows) for heads, rows in tables)


TABLES: Mapping[str, Callable[[Sequence[Result]], str]] = {
    "results": _result_tables,
    "choice": lambda results: _tables(choice_tables(compare_all(results))),
    "recorded": lambda results: _recorded_table(results),
    "foretelling": lambda results: _tables(foretelling_tables(compare_all(results))),
}
"""Tables that a page can have, by the name in their marks."""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _claims_table(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        rows.append([verdict.claim, f"“{verdict.quote}”", verdict.text, f"**{verdict}**"])
    return _table(("claim", "the paper's words", "what is judged", "verdict"), rows)


def _findings_table(verdicts: Sequence[Verdict]) -> str:
    """Every comparison with its numbers."""
    rows = []
    for verdict in verdicts:
        for finding in verdict.findings:
            rows.append([verdict.claim, finding.statement, finding.outcome, finding.numbers])
    return _table(("claim", "comparison", "outcome", "numbers"), rows)


def _accuracy_tables(results: Sequence[Result]) -> list[str]:
    tables = []
    for (benchmark, source), summaries in compare(results).items():
        rows = [_accuracy_row(summary) for summary in summaries]
        run = summaries[0].run
        task, test = run.description.task_name, run.description.test_score.partition("_")[0]
        counted = (f"{task}s", f"first {task}", f"last {task}", f"all {task}s", f"{test}, all {task}s")
        heads = ("method", "seeds", *counted, "slope")
        scored = run.description.score.replace("_", " ")
        tables.append(f"**{benchmark}** on {source}: {scored}\n\n{_table(heads, rows)}")
    return tables


def _accuracy_row(summary: Summary) -> list[str]:
    seeds = str(len(summary.results))
    if summary.diverged:
        seeds = f"{seeds} ({summary.diverged} diverged)"
    if not summary.tasks:
        return [summary.label, seeds, "0", "-", "-", "-", "-", "-"]
    values = summary.scores()
    return [
        summary.label,
        seeds,
        str(summary.tasks),
        mean_text(values[:, 0]),
        mean_text(values[:, -1]),
        spread(summary.total()),
        spread(summary.total(summary.run.description.test_score)),
        str(plasticity_slope(values)) if summary.run.description.shows_plasticity else "-",
    ]


def _cost_table(results: Sequence[Result]) -> str:
    rows = []
    for summaries in compare(results).values():
        members = list(chain.from_iterable(summary.results for summary in summaries))
        steps = sum(result.run.steps_of(len(result.rows)) for result in members)
        timed = [result for result in members if result.core_seconds]
        seconds = sum(result.core_seconds for result in timed)
        own = sum(result.run.steps_of(len(result.rows)) for result in timed)
        time = f"{duration(seconds)} for {len(timed)} runs, {own / seconds:,.0f} steps/s" if seconds else "not measured"
        machines = dict.fromkeys(result.manifest.get("machine", {}).get("cpu", "unknown") for result in members)
        commits = dict.fromkeys(chain.from_iterable(short_commits(result.manifest) for result in members))
        name = summaries[0].run.description.benchmark
        cells = (f"{steps:,}", time, ", ".join(machines), ", ".join(commits), PAPER_HOURS.get(name, ""))
        rows.append([name, str(len(members)), *cells])
    heads = ("benchmark", "runs", "model-steps", "time of one core", "machine", "commit", "the paper's time")
    return _table(heads, rows)


def _recorded_table(results: Sequence[Result]) -> str:
    """Command, commit, machine, engine and instruction set of all runs, those together that were made together."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        own = result.run.description
        changed = {name: value for name, value in own.settings.items() if value != own.own[name]}
        changed |= hyper_parameters(own.benchmark, result.run.method)
        if result.run.tasks == result.run.description.own.get("tasks"):
            changed.pop("tasks", None)
        options = [word for name, value in changed.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        machine = result.manifest.get("machine", {})
        engine = result.manifest.get("engine") or {}
        made = (
            " ".join((*own.command, *options)),
            ", ".join(short_commits(result.manifest)),
            f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores",
            " ".join(str(word) for word in engine.values()) or "not named yet",
            str(machine.get("kernels") or machine.get("instructions") or "not named yet"),
        )
        groups.setdefault((own.benchmark, *made), []).append(result)
    rows = []
    for (_, command, *origin), members in sorted(groups.items()):
        methods = " ".join(dict.fromkeys(result.run.method for result in members))
        seeds = " ".join(map(str, sorted({result.run.seed for result in members})))
        rows.append([f"`{command} --methods {methods} --seeds {seeds}`", str(len(members)), *origin])
    return _table(("command", "runs", "commit", "machine", "engine", "instruction set"), rows)
