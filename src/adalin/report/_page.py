"""One page that shows everything: who keeps plasticity where, curves, claims, figures, and how it all was made.

It is a file to open by double click, without network. Tables are plain HTML, so they can be read and printed without
scripts; page/page.js draws the charts with plotly, which lies beside the page as it is larger than all the rest.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from adalin.report._page_benchmark import benchmark_part, fate_of, number
from adalin.report._page_data import Section, chart_data, make_sections
from adalin.report._page_html import command_line, count, scrolling, signed, sortable_heads, swatch
from adalin.report._page_origin import protocol
from adalin.report._statistics import LEAST_TASKS, MARGIN
from adalin.report._style import style_of
from adalin.report._summary import Summary
from adalin.report._verdict import Outcome, Verdict

OUTCOMES: dict[Outcome, str] = {"holds": "✓", "does not hold": "✗", "undecided": "?"}
IMAGES = {".png", ".svg", ".jpg", ".jpeg", ".webp"}


@dataclass(frozen=True)
class Picture:
    """A publication figure beside the page."""

    title: str
    files: tuple[Path, ...]
    """Relative to the page: figures/main-figure.png, figures/main-figure.pdf."""
    command: str
    """What made it."""
    note: str = ""
    """Scale, data, deviations."""


def write_page(
    out: Path,
    summaries: Sequence[Summary],
    verdicts: Sequence[Verdict],
    *,
    pictures: Sequence[Picture] = (),
    command: str,
) -> Path:
    """Write index.html and plotly.min.js into a folder; returns the path of the page."""
    # Here, as nothing else needs it and it is no part of the library.
    from plotly.offline import get_plotlyjs

    sections = make_sections(summaries)
    parts = [
        ("overview", "Overview", _overview(sections, verdicts)),
        ("claims", "Claims", _claims(verdicts)),
        *((one.anchor, one.run.benchmark_name, benchmark_part(one, index)) for index, one in enumerate(sections)),
        ("figures", "Figures", _figures(pictures)),
        ("protocol", "Protocol", protocol(sections)),
    ]
    parts = [part for part in parts if part[2]]
    assets = files("adalin.report") / "page"
    page = Template((assets / "page.html").read_text("utf-8")).substitute(
        css=(assets / "page.css").read_text("utf-8"),
        script=(assets / "page.js").read_text("utf-8"),
        about=_about(sections),
        navigation="".join(f'<li><a href="#{escape(anchor)}">{escape(title)}</a></li>' for anchor, title, _ in parts),
        main="\n".join(content for _, _, content in parts),
        command=escape(command),
        # No "<" at all: neither </script> nor <!-- can end or change the block.
        data=json.dumps(chart_data(sections), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "plotly.min.js").write_text(get_plotlyjs(), "utf-8")
    path = out / "index.html"
    path.write_text(page, "utf-8")
    return path


def _about(sections: Sequence[Section]) -> str:
    summaries = [summary for section in sections for summary in section.summaries]
    runs = [result for summary in summaries for result in summary.results]
    states = Counter(result.state for result in runs)
    told = ", ".join(f"{states[state]} {state}" for state in ("done", "unfinished", "diverged") if states[state])
    benchmarks = count(len({section.run.benchmark for section in sections}), "benchmark")
    return f"{count(len(runs), 'run')} of {count(len(summaries), 'setting')} on {benchmarks}" + (told and f": {told}")


def _overview(sections: Sequence[Section], verdicts: Sequence[Verdict]) -> str:
    if shown := [section for section in sections if section.run.shows_plasticity]:
        hint = (
            "Change of online accuracy from the first tasks (up to five) to the last ones; below it the mean over all "
            f"tasks. <em>Loses</em>: certainly falls by more than {MARGIN}; <em>gains</em>: rises by more; "
            "<em>keeps</em>: neither, though it may have been better in between; <em>unclear</em>: the 95 % interval "
            f"does not tell, a seed diverged, it ends near chance, or there are fewer than {LEAST_TASKS} tasks."
        )
        body = scrolling(_matrix(shown), "Plasticity, methods by benchmarks", "tall") + f'<p class="hint">{hint}</p>'
    else:
        which = " with equally hard tasks" if sections else ""
        body = f'<p class="empty">There are no runs{which} yet. <code>adalin run</code> makes some.</p>'
    return (
        '<section id="overview"><h2>Who keeps plasticity where</h2>'
        f'<div class="overview"><div class="wide">{body}</div>{_tally(verdicts)}</div></section>'
    )


def _matrix(sections: Sequence[Section]) -> str:
    columns = [_by_row(section) for section in sections]
    methods = {name: one.run.method for column in columns for name, one in column.items()}
    heads = "".join(
        f'<th scope="col"><a href="#{escape(one.anchor)}">{escape(one.run.benchmark_name)}</a>'
        f"<small>{escape(one.source)}</small></th>"
        for one in sections
    )
    rows = "".join(
        f'<tr><th scope="row">{swatch(style_of(method))}{escape(name)}</th>'
        + "".join(_cell(column[name]) if name in column else '<td class="none">&ndash;</td>' for column in columns)
        + "</tr>"
        for name, method in methods.items()
    )
    return (
        f'<table class="matrix"><thead><tr><th scope="col">method</th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _by_row(section: Section) -> dict[str, Summary]:
    """The benchmark's own setting is in the row of its method, also where the method has others."""
    own = section.run.own_settings()
    rows: dict[str, Summary] = {}
    for one in section.summaries:
        is_own = all(value == own[name] for name, value in one.run.settings().items() if name != "tasks")
        name = one.run.method if is_own and one.run.method not in rows else one.label
        rows[name] = one
    return rows


def _cell(summary: Summary) -> str:
    fate = fate_of(summary)
    diverged, seeds = sum(result.state == "diverged" for result in summary.results), len(summary.results)
    notes = ""
    if fate.slope is not None:
        notes += f"<small>accuracy {number(summary.total())[1]}</small>"
    if diverged:
        notes += f"<small>{diverged} of {count(seeds, 'seed')}{'' if fate.word == 'diverged' else ' diverged'}</small>"
    slope = 0.0 if fate.slope is None else fate.slope.value
    change = "" if fate.slope is None else f" <b>{signed(slope)}</b>"
    tint = round(45 * min(1.0, abs(slope) / 0.5))  # half of all accuracy lost is as bad as it looks
    return f'<td class="{fate.word}" style="--tint:{tint}%">{fate.text}{change}{notes}</td>'


def _tally(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    counts = Counter(verdict.outcome for verdict in verdicts)
    smaller = Counter(verdict.outcome for verdict in verdicts if verdict.is_smaller)
    plurals: dict[Outcome, str] = {"holds": "hold", "does not hold": "do not hold", "undecided": "undecided"}
    items = "".join(
        f'<li class="{_class(outcome)}"><b>{counts[outcome]}</b> '
        f'<span><span aria-hidden="true">{OUTCOMES[outcome]}</span> {plural}'
        f"{f'<small>{smaller[outcome]} at a smaller scale</small>' if smaller[outcome] else ''}</span></li>"
        for outcome, plural in plurals.items()
    )
    return f'<aside class="tally"><h3><a href="#claims">The paper\'s claims</a></h3><ul>{items}</ul></aside>'


def _claims(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    counts = Counter(verdict.outcome for verdict in verdicts)
    choices = [("", f"all ({len(verdicts)})")]
    choices += [(outcome, f"{symbol} {outcome} ({counts[outcome]})") for outcome, symbol in OUTCOMES.items()]
    filters = "".join(
        f'<button type="button" data-outcome="{outcome}" aria-pressed="{str(not outcome).lower()}">{text}</button>'
        for outcome, text in choices
    )
    order = list(OUTCOMES)
    rows = "".join(
        f'<tr data-outcome="{one.outcome}"><th scope="row" data-value="{index}">{escape(one.claim)}</th>'
        f"<td><details><summary>{escape(one.text)}</summary>{_findings(one)}</details></td>"
        f'<td data-value="{order.index(one.outcome)}">{_outcome(one.outcome)}'
        f"{'<small>at a smaller scale than the paper</small>' if one.is_smaller else ''}</td></tr>"
        for index, one in enumerate(verdicts)
    )
    heads = sortable_heads(("claim", "text", "outcome"))
    table = f'<table class="claims sortable"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return (
        '<section id="claims"><h2>The paper\'s claims</h2><p>A claim holds if all its findings do, and does not if one '
        "of them does not. Open a claim to see them.</p>"
        f'<div class="controls filters" role="group" aria-label="Outcome">{filters}</div>'
        f"{scrolling(table, 'Claims')}</section>"
    )


def _findings(verdict: Verdict) -> str:
    items = "".join(
        f"<li>{_outcome(one.outcome)}: {escape(one.statement)}<small>{escape(one.numbers)}</small></li>"
        for one in verdict.findings
    )
    return f"<ul>{items}</ul>" if items else "<p>No run tells.</p>"


def _outcome(outcome: Outcome) -> str:
    symbol = f'<span aria-hidden="true">{OUTCOMES[outcome]}</span>'
    return f'<span class="outcome {_class(outcome)}">{symbol} {outcome}</span>'


def _class(outcome: Outcome) -> str:
    return outcome.replace(" ", "-")


def _figures(pictures: Sequence[Picture]) -> str:
    figures = ""
    for picture in pictures:
        shown = next((path for path in picture.files if path.suffix.lower() in IMAGES), None)
        image = f'<img src="{_url(shown)}" alt="{escape(picture.title)}" decoding="async">' if shown else ""
        links = " ".join(f'<a href="{_url(path)}">{escape(path.suffix[1:].upper())}</a>' for path in picture.files)
        note = f"<p>{escape(picture.note)}</p>" if picture.note else ""
        figures += (
            f"<figure>{image}<figcaption><h3>{escape(picture.title)}</h3>{note}{command_line(picture.command)}"
            f'<p class="links">{links}</p></figcaption></figure>'
        )
    return f'<section id="figures"><h2>Figures</h2><div class="figures">{figures}</div></section>' if figures else ""


def _url(path: Path) -> str:
    return escape(quote(path.as_posix()))
