"""One page that shows everything: who keeps plasticity where, curves, claims, figures, and how it all was made.

It is a file to open by double click, without network. Tables are plain HTML, so they can be read and printed without
scripts; page/page.js draws the charts with plotly, which lies beside the page as it is larger than all the rest.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from adalin._text import count
from adalin.report._html import Child, Element, h, to_html
from adalin.report._page_benchmark import benchmark_part, fate_mark, number
from adalin.report._page_data import Section, chart_data, count_diverged, fate_of, make_sections
from adalin.report._page_html import MISSING, button, command_line, controls, hint, part, signed, swatch, table
from adalin.report._page_origin import protocol
from adalin.report._statistics import LEAST_TASKS, MARGIN
from adalin.report._style import style_of
from adalin.report._summary import Summary
from adalin.report._verdict import Judgement, Verdict
from adalin.runs import plain_disk_errors, write_atomically

JUDGEMENTS: tuple[Judgement, ...] = ("reproduced", "in part", "not reproduced", "not tested at scale", "undecided")
"""Verdicts in the order of the page."""
SYMBOLS = {
    **{"reproduced": "✓", "in part": "◐", "not reproduced": "✗", "not tested at scale": "○", "undecided": "?"},
    **{"holds": "✓", "does not hold": "✗"},
}
"""Signs of verdicts and of findings."""
LEGEND = (
    "Change of online accuracy from the first tasks (up to five) to the last ones; below it the mean over all tasks. ",
    "The last tasks are held against the first, the next after these, and the best in a row, seed by seed; two of ",
    (
        "three decide. ",
        h("em", "Loses"),
        f": certainly falls by more than {MARGIN}; ",
        h("em", "keeps"),
        ": does not; ",
    ),
    (h("em", "gains"), ": rises by more from the first; ", h("em", "unclear"), ": the 95 % intervals do not tell, "),
    f"as with a single seed, a seed diverged, it ends near chance, or there are fewer than {LEAST_TASKS} tasks.",
)
IMAGES = {".png", ".svg", ".jpg", ".jpeg", ".webp"}


@dataclass(frozen=True)
class Picture:
    """A publication figure beside the page."""

    title: str
    """Heading of the figure."""
    files: tuple[Path, ...]
    """Paths relative to the page: figures/main-figure.png, figures/main-figure.pdf."""
    command: str
    """Command that draws the figure."""
    note: str = ""
    """Scale, data, deviations."""


@dataclass(frozen=True)
class PageTitles:
    """What the page calls things that depend on whose claims it is about."""

    claims: str
    """Heading of the claims: "The paper's claims"."""
    choices: str
    """Heading of what was chosen for all runs: "Choices that the paper leaves open"."""


def write_page(
    out: Path,
    summaries: Sequence[Summary],
    verdicts: Sequence[Verdict],
    *,
    titles: PageTitles,
    pictures: Sequence[Picture] = (),
    command: str,
) -> Path:
    """Write index.html and plotly.min.js into a folder; returns the path of the page.

    Each is whole at any moment, the old one or the new one, also if the disk is full or the process is killed.
    """
    # Here, as nothing else needs it and it is no part of the library.
    from plotly.offline import get_plotlyjs

    sections = make_sections(summaries)
    parts = [
        ("Overview", _overview(sections, verdicts, titles)),
        ("Claims", _claims(verdicts, titles)),
        *(
            (section.run.description.benchmark, benchmark_part(section, index))
            for index, section in enumerate(sections)
        ),
        ("Figures", _figures(pictures)),
        ("Protocol", protocol(sections, titles.choices)),
    ]
    shown = [(title, element) for title, element in parts if element]
    links = [h("li", h("a", title, href=f"#{element.attributes['id']}")) for title, element in shown]
    assets = files("adalin.report") / "page"
    page = Template((assets / "page.html").read_text("utf-8")).substitute(
        css=(assets / "page.css").read_text("utf-8"),
        script=(assets / "page.js").read_text("utf-8"),
        about=to_html(_about(sections)),
        navigation=to_html(links),
        main="\n".join(to_html(element) for _, element in shown),
        command=to_html(command),
        # No "<" at all: neither </script> nor <!-- can end or change the block.
        data=json.dumps(chart_data(sections), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    )
    path = out / "index.html"
    _write(out / "plotly.min.js", get_plotlyjs().encode())
    _write(path, page.encode("utf-8", "xmlcharrefreplace"))  # half a surrogate pair, which JSON may hold
    return path


def _write(path: Path, content: bytes) -> None:
    with plain_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content, temporary=path.with_name(f"{path.name}.tmp"))


def _about(sections: Sequence[Section]) -> str:
    summaries = [summary for section in sections for summary in section.summaries]
    states = Counter(result.state for summary in summaries for result in summary.results)
    benchmarks = count(len({section.run.benchmark for section in sections}), "benchmark")
    text = f"{count(states.total(), 'run')} of {count(len(summaries), 'setting')} on {benchmarks}"
    counts = ", ".join(f"{states[state]} {state}" for state in ("done", "unfinished", "diverged") if states[state])
    return f"{text}: {counts}" if counts else text


def _overview(sections: Sequence[Section], verdicts: Sequence[Verdict], titles: PageTitles) -> Element:
    shown = [section for section in sections if section.run.description.shows_plasticity]
    which = " with equally hard tasks" if sections else ""
    body: Child = h("p", f"There are no runs{which} yet. ", h("code", "adalin run"), " makes some.", class_="empty")
    if shown:
        body = (_matrix(shown), hint(LEGEND))
    columns = h("div", h("div", body, class_="wide"), _tally(verdicts, titles.claims), class_="overview")
    return part("overview", "Who keeps plasticity where", columns)


def _matrix(sections: Sequence[Section]) -> Element:
    columns = [_by_row(section) for section in sections]
    methods = {name: summary.run.method for column in columns for name, summary in column.items()}
    heads = [
        (h("a", section.run.description.benchmark, href=f"#{section.anchor}"), h("small", section.source))
        for section in sections
    ]
    rows = []
    for name, method in methods.items():
        cells = [_cell(column[name]) if name in column else h("td", MISSING, class_="none") for column in columns]
        rows.append(h("tr", h("th", swatch(style_of(method)), name, scope="row"), cells))
    return table(["method", *heads], rows, label="Plasticity, methods by benchmarks", class_="matrix", tall=True)


def _by_row(section: Section) -> dict[str, Summary]:
    """Summaries by row; the benchmark's own setting is in the row of its method, also where the method has others."""
    rows: dict[str, Summary] = {}
    for summary in section.summaries:
        is_own = section.changed(summary).keys() <= {"tasks"}
        rows[summary.run.method if is_own and summary.run.method not in rows else summary.label] = summary
    return rows


def _cell(summary: Summary) -> Element:
    fate, diverged = fate_of(summary), count_diverged(summary)
    content: list[Child] = [fate_mark(fate)]
    slope = 0.0
    if fate.change is not None:
        slope = fate.change.value
        content += [" ", h("b", signed(slope)), h("small", f"accuracy {number(summary.total())[1]}")]
    if diverged:
        seeds = f"{diverged} of {count(len(summary.results), 'seed')}"
        content.append(h("small", seeds if fate.word == "diverged" else f"{seeds} diverged"))
    tint = round(45 * min(1.0, abs(slope) / 0.5))  # half of all accuracy lost is as bad as it looks
    return h("td", content, class_=fate.word, style=f"--tint:{tint}%")


def _tally(verdicts: Sequence[Verdict], title: str) -> Element | None:
    if not verdicts:
        return None
    counts = Counter(verdict.outcome for verdict in verdicts)
    items = []
    for outcome in JUDGEMENTS:
        text = h("span", _symbol(outcome), f" {outcome}")
        items.append(h("li", h("b", counts[outcome]), " ", text, class_=_class(outcome)))
    return h("aside", h("h3", h("a", title, href="#claims")), h("ul", items), class_="tally")


def _claims(verdicts: Sequence[Verdict], titles: PageTitles) -> Element | None:
    if not verdicts:
        return None
    counts = Counter(verdict.outcome for verdict in verdicts)
    filters = [button(f"all ({len(verdicts)})", data_outcome="", pressed=True)]
    for outcome in JUDGEMENTS:
        filters.append(button(f"{SYMBOLS[outcome]} {outcome} ({counts[outcome]})", data_outcome=outcome, pressed=False))
    rule = (
        "A claim is a set of comparisons, one for each benchmark, method or environment that it is about; its verdict "
        "is how many of them hold. Open a claim to see them."
    )
    choices = controls(filters, class_="controls filters", label="Outcome")
    rows = [_claim(verdict, index) for index, verdict in enumerate(verdicts)]
    claims = table(("claim", "text", "outcome"), rows, label="Claims", class_="claims", sortable=True)
    return part("claims", titles.claims, h("p", rule), choices, claims)


def _claim(verdict: Verdict, index: int) -> Element:
    findings = [
        h("li", _outcome(finding.outcome), f": {finding.statement}", h("small", finding.numbers))
        for finding in verdict.findings
    ]
    quote = h("blockquote", verdict.quote) if verdict.quote else None
    known = h("ul", findings) if findings else h("p", "No run tells.")
    details = h("details", h("summary", verdict.text), quote, known)
    place = JUDGEMENTS.index(verdict.outcome)
    judged = h("span", _symbol(verdict.outcome), f" {verdict}", class_=f"outcome {_class(verdict.outcome)}")
    cells = (h("td", details), h("td", judged, data_value=place))
    return h("tr", h("th", verdict.claim, scope="row", data_value=index), cells, data_outcome=verdict.outcome)


def _outcome(outcome: str) -> Element:
    return h("span", _symbol(outcome), f" {outcome}", class_=f"outcome {_class(outcome)}")


def _symbol(outcome: str) -> Element:
    return h("span", SYMBOLS[outcome], aria_hidden="true")


def _class(outcome: str) -> str:
    return outcome.replace(" ", "-")


def _figures(pictures: Sequence[Picture]) -> Element | None:
    figures = [_figure(picture) for picture in pictures]
    return part("figures", "Figures", h("div", figures, class_="figures")) if figures else None


def _figure(picture: Picture) -> Element:
    shown = next((path for path in picture.files if path.suffix.lower() in IMAGES), None)
    image = h("img", src=_url(shown), alt=picture.title, decoding="async") if shown else None
    note = h("p", picture.note) if picture.note else None
    links: list[Child] = []
    for path in picture.files:
        links += [h("a", path.suffix[1:].upper(), href=_url(path)), " "]
    files = h("p", links[:-1], class_="links")
    return h("figure", image, h("figcaption", h("h3", picture.title), note, command_line(picture.command), files))


def _url(path: Path) -> str:
    return quote(path.as_posix())
