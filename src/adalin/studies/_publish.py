"""From results to a page, and to Markdown for the documentation, both with the figures that the results give."""

import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from adalin.report import (
    PageTitles,
    Picture,
    Summary,
    Verdict,
    by_benchmark,
    duration,
    save_figure,
    summarise_all,
    write_page,
)
from adalin.report._page_origin import short_commits
from adalin.report._statistics import plasticity_slope
from adalin.report._table import mean_text, spread
from adalin.studies._claims import judge_claims
from adalin.studies._figures import find_figures
from adalin.studies._paper import PAPER_HOURS
from adalin.training import Result

MARKS = ("<!-- results: made by `adalin report --markdown` -->", "<!-- end of results -->")
"""What stands between them in a Markdown file is replaced."""
VERDICTS = ("<!-- verdicts: made by `adalin report --markdown` -->", "<!-- end of verdicts -->")
"""Likewise, by the claims and their verdicts alone."""
TITLES = PageTitles(
    claims="The paper's claims",
    smaller="at a smaller scale than the paper",
    choices="Choices that the paper leaves open",
)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\.png\)")
"""In Markdown."""


def save_picture(figure: Figure, folder: Path, name: str) -> list[Path]:
    """A figure as PNG and PDF."""
    paths = [folder / f"{name}{suffix}" for suffix in (".png", ".pdf")]
    for path in paths:
        save_figure(figure, path)
    return paths


def publish(results: Sequence[Result], out: Path, *, command: str) -> Path:
    """The page about results, with all figures of the paper that they give; returns its path."""
    summaries = summarise_all(results)
    pictures = []
    for figure in find_figures(results):
        paths = save_picture(figure.draw(), out / "figures", figure.recipe.name)
        files = tuple(path.relative_to(out) for path in paths)
        pictures.append(Picture(figure.recipe.title, files, figure.command, figure.note))
    return write_page(out, summaries, judge_claims(summaries), titles=TITLES, pictures=pictures, command=command)


def write_markdown(results: Sequence[Result], path: Path) -> None:
    """Put tables of claims, accuracies and costs, or the verdicts alone, between the marks of a Markdown file.

    Pictures that it shows and that have the name of a recipe, as images/main-figure.png, are drawn anew.
    """
    if not path.exists():
        raise ValueError(f"there is no file {path}: tables go between the marks of one that is there")
    text = path.read_bytes().decode()  # ends of lines stay what they are
    start, end = marks = VERDICTS if VERDICTS[0] in text else MARKS
    if not all(text.count(mark) == 1 for mark in marks) or text.index(start) > text.index(end):
        raise ValueError(f"{path} must have the lines {start!r} and {end!r} once each: tables go between them")
    before, rest = text.split(start)
    after = rest.split(end)[1]
    verdicts = judge_claims(summarise_all(results))
    if marks == VERDICTS:
        tables = _table(("claim", "verdict"), [[f"{one.claim}. {one.text}", str(one)] for one in verdicts])
    else:
        tables = "\n\n".join((_claims_table(verdicts), *_accuracy_tables(results), _cost_table(results)))
    path.write_bytes(f"{before}{start}\n\n{tables}\n\n{end}{after}".encode())
    figures = {figure.recipe.name: figure for figure in find_figures(results)}
    for shown in map(Path, IMAGE.findall(text)):
        if shown.name in figures:
            save_figure(figures[shown.name].draw(), path.parent / f"{shown}.png")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _claims_table(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        # What decides: findings that fail, else those that are missing.
        decisive = [one for one in verdict.findings if one.outcome == verdict.outcome]
        numbers = [f"{one.statement}: {one.numbers}" for one in decisive[:2]]
        more = [f"and {len(decisive) - 2} more"] * (len(decisive) > 2)
        rows.append([verdict.claim, verdict.text, f"**{verdict}**", "<br>".join(numbers + more)])
    return _table(("claim", "text", "verdict", "numbers"), rows)


def _accuracy_tables(results: Sequence[Result]) -> list[str]:
    tables = []
    for (benchmark, source), summaries in by_benchmark(results).items():
        rows = [_accuracy_row(summary) for summary in summaries]
        run = summaries[0].run
        task, test = run.task_name, run.test_score.partition("_")[0]
        counted = (f"{task}s", f"first {task}", f"last {task}", f"all {task}s", f"{test}, all {task}s")
        heads = ("method", "seeds", *counted, "slope")
        scored = run.score.replace("_", " ")
        tables.append(f"**{benchmark}** on {source}: {scored}\n\n{_table(heads, rows)}")
    return tables


def _accuracy_row(summary: Summary) -> list[str]:
    diverged = sum(result.state == "diverged" for result in summary.results)
    seeds = f"{len(summary.results)}" + (f" ({diverged} diverged)" if diverged else "")
    if not summary.tasks:
        return [summary.label, seeds, "0", *["-"] * 5]
    values, totals = summary.scores(), (summary.total(), summary.total(summary.run.test_score))
    ends = [mean_text(values[:, task]) for task in (0, -1)]
    slope = str(plasticity_slope(values)) if summary.run.shows_plasticity else "-"
    return [summary.label, seeds, str(summary.tasks), *ends, *map(spread, totals), slope]


def _cost_table(results: Sequence[Result]) -> str:
    rows = []
    for summaries in by_benchmark(results).values():
        members = [result for summary in summaries for result in summary.results]
        steps = sum(result.run.steps_of(len(result.rows)) for result in members)
        timed = [result for result in members if result.core_seconds]
        seconds = sum(result.core_seconds for result in timed)
        own = sum(result.run.steps_of(len(result.rows)) for result in timed)
        time = f"{duration(seconds)} for {len(timed)} runs, {own / seconds:,.0f} steps/s" if seconds else "not measured"
        machines = dict.fromkeys(result.manifest.get("machine", {}).get("cpu", "unknown") for result in members)
        commits = dict.fromkeys(commit for result in members for commit in short_commits(result.manifest))
        name = summaries[0].run.benchmark_name
        cells = (f"{steps:,}", time, ", ".join(machines), ", ".join(commits), PAPER_HOURS.get(name, ""))
        rows.append([name, str(len(members)), *cells])
    heads = ("benchmark", "runs", "model-steps", "time of one core", "machine", "commit", "the paper's time")
    return _table(heads, rows)
