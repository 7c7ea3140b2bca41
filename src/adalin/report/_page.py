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
from adalin.report._page_benchmark import benchmark_part
from adalin.report._page_claims import claims_part
from adalin.report._page_data import Section, chart_data, make_sections
from adalin.report._page_html import command_line, folded
from adalin.report._page_origin import protocol
from adalin.report._page_overview import overview
from adalin.report._summary import Summary
from adalin.report._verdict import Verdict
from adalin.runs import plain_disk_errors, write_atomically

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
        ("Overview", overview(sections, verdicts, titles.claims)),
        ("Claims", claims_part(verdicts, titles.claims)),
        *((section.run.description.title, benchmark_part(section, index)) for index, section in enumerate(sections)),
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


def _figures(pictures: Sequence[Picture]) -> Element | None:
    figures = [_figure(picture) for picture in pictures]
    note = count(len(figures), "figure")
    return folded("figures", "Figures", note, h("div", figures, class_="figures")) if figures else None


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
