"""From results to a page, and to Markdown for the documentation."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from adalin.report import Picture, Summary, Verdict, by_benchmark, duration, save_figure, write_page
from adalin.report._page_origin import short_commits
from adalin.report._statistics import plasticity_slope
from adalin.report._table import mean_text, spread
from adalin.studies._claims import judge_claims
from adalin.studies._paper import PAPER_HOURS
from adalin.training import Result

MARKS = ("<!-- results: made by `adalin report --markdown` -->", "<!-- end of results -->")
"""What stands between them in a Markdown file is replaced."""
VERDICTS = ("<!-- verdicts: made by `adalin report --markdown` -->", "<!-- end of verdicts -->")
"""Likewise, by the claims and their verdicts alone."""


def save_picture(figure: Figure, folder: Path, name: str, *, title: str, command: str, note: str) -> list[Path]:
    """A figure as PNG and PDF, with what made it beside it."""
    paths = [folder / f"{name}{suffix}" for suffix in (".png", ".pdf")]
    for path in paths:
        save_figure(figure, path)
    made = {"title": title, "command": command, "note": note}
    (folder / f"{name}.json").write_text(json.dumps(made, indent=2) + "\n")
    return paths


def publish(results: Sequence[Result], out: Path, *, figures: Path, command: str) -> Path:
    """The page about results, with the figures of a folder; returns its path."""
    summaries = _summaries(results)
    out.mkdir(parents=True, exist_ok=True)
    pictures = _copy_pictures(figures, out)
    return write_page(out, summaries, judge_claims(summaries), pictures=pictures, command=command)


def write_markdown(results: Sequence[Result], path: Path) -> None:
    """Put tables of claims, accuracies and costs, or the verdicts alone, between the marks of a Markdown file."""
    if not path.exists():
        raise ValueError(f"there is no file {path}: tables go between the marks of one that is there")
    text = path.read_bytes().decode()  # ends of lines stay what they are
    start, end = marks = VERDICTS if VERDICTS[0] in text else MARKS
    if not all(text.count(mark) == 1 for mark in marks) or text.index(start) > text.index(end):
        raise ValueError(f"{path} must have the lines {start!r} and {end!r} once each: tables go between them")
    before, rest = text.split(start)
    after = rest.split(end)[1]
    verdicts = judge_claims(_summaries(results))
    if marks == VERDICTS:
        tables = _table(("claim", "verdict"), [[f"{one.claim}. {one.text}", str(one)] for one in verdicts])
    else:
        tables = "\n\n".join((_claims_table(verdicts), *_accuracy_tables(results), _cost_table(results)))
    path.write_bytes(f"{before}{start}\n\n{tables}\n\n{end}{after}".encode())


def _summaries(results: Sequence[Result]) -> list[Summary]:
    return [summary for members in by_benchmark(results).values() for summary in members]


def _copy_pictures(folder: Path, out: Path) -> list[Picture]:
    pictures = []
    for path in sorted(folder.glob("*.json")):
        try:
            made = json.loads(path.read_text())
            described = {name: str(made[name]) for name in ("title", "command", "note")}
        except (KeyError, TypeError, ValueError):  # not one of ours, or cut off
            continue
        files = []
        for suffix in (".png", ".pdf"):
            source = path.with_suffix(suffix)
            if source.exists():
                copy = out / "figures" / source.name
                if not (copy.exists() and copy.samefile(source)):  # as in a page beside the figures
                    copy.parent.mkdir(exist_ok=True)
                    shutil.copyfile(source, copy)
                files.append(Path("figures", source.name))
        if files:
            pictures.append(Picture(files=tuple(files), **described))
    return pictures


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
        test = f"{run.test_score.partition('_')[0]}, all tasks"
        heads = ("method", "seeds", "tasks", "first task", "last task", "all tasks", test, "slope")
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
