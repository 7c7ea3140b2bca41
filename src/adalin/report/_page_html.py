"""Elements and texts that several parts of the page have."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from adalin._text import count
from adalin.report._html import Child, Element, Value, h
from adalin.report._style import Style

MISSING = "\u2013"
"""What stands where there is no number: a dash as wide as a figure."""
DASHES = {"solid": "", "dash": "7 4", "dot": "2 4", "dashdot": "7 3 2 3"}
"""Our names for dashes as SVG's lengths."""


def part(anchor: str, title: str, *content: Child, **attributes: Value) -> Element:
    """A part of the page, with the anchor that links lead to."""
    return h("section", h("h2", title), content, id=anchor, **attributes)


def folded(anchor: str, title: str, note: str, *content: Child, **attributes: Value) -> Element:
    """A part of the page that is closed at first, with a note beside its title."""
    summary = h("summary", h("h2", title), h("span", note, class_="note"))
    return h("section", h("details", summary, content), id=anchor, **attributes)


def controls(*content: Child, class_: str = "controls", label: str | None = None) -> Element:
    """A row of buttons and selectors; a label makes it a group of its own."""
    return h("div", content, class_=class_, role=label and "group", aria_label=label)


def hint(*content: Child) -> Element:
    """A note in small print."""
    return h("p", content, class_="hint")


def swatch(style: Style) -> Element:
    """The line that stands for a setting in the charts."""
    line = h("line", x1=1, y1=4, x2=25, y2=4, stroke_dasharray=DASHES[style.dash])
    return h("svg", line, class_="swatch", style=f"--colour:{style.colour}", width=26, height=8, aria_hidden="true")


def button(*content: Child, pressed: bool | None = None, **attributes: Value) -> Element:
    """A button; `pressed` makes it a toggle in this state."""
    state = None if pressed is None else str(pressed).lower()
    return h("button", content, type="button", aria_pressed=state, **attributes)


def command_line(command: str) -> Element:
    """A command that can be copied."""
    return h("div", h("pre", h("code", command), tabindex=0), button("copy", class_="copy"), class_="command")


def table(
    heads: Iterable[Child],
    rows: Child,
    *,
    label: str,
    class_: str,
    caption: str | None = None,
    sortable: bool = False,
) -> Element:
    """A table that scrolls by itself, also by keyboard, so that the page does not have to."""
    columns = [h("th", button(head) if sortable else head, scope="col") for head in heads]
    title = None if caption is None else h("caption", caption)
    classes = f"{class_} sortable" if sortable else class_
    whole = h("table", title, h("thead", h("tr", columns)), h("tbody", rows), class_=classes)
    return h("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def facts(pairs: Iterable[tuple[str, str]]) -> Element:
    """A list of names, each with what is known about it."""
    return h("dl", [(h("dt", name), h("dd", text)) for name, text in pairs])


def words(name: str) -> str:
    """A metric's or setting's name as people write it."""
    return name.replace("_", " ")


def plain(value: Any) -> str:
    """A setting's value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def signed(value: float) -> str:
    """A number with its sign and two digits."""
    return f"{value:+.2f}".replace("-", "\u2212")  # a real minus, as wide as the plus


def sort_key(value: float) -> str:
    """A number for page.js to sort by; empty for what is no number."""
    return "" if math.isnan(value) else f"{value:.6g}"


def spelled(values: Iterable[Any]) -> str:
    """Values as people list them, each once: "3, 4, 5"."""
    return ", ".join(dict.fromkeys(str(value) for value in values))


def tallied(values: Iterable[str]) -> str:
    """Values, each with the number of runs that have it."""
    return "; ".join(f"{value} ({count(number, 'run')})" for value, number in Counter(values).items())
