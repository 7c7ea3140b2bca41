"""Pieces of HTML that several parts of the page have. Whatever they are given as text is escaped here."""

import math
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Any

from adalin.report._style import Style

DASHES = {"solid": "", "dash": "7 4", "dot": "2 4", "dashdot": "7 3 2 3"}
"""Our names for dashes as SVG's lengths."""


def swatch(style: Style) -> str:
    """The line that stands for a setting in the charts."""
    return (
        f'<svg class="swatch" style="--colour:{style.colour}" width="26" height="8" aria-hidden="true">'
        f'<line x1="1" y1="4" x2="25" y2="4" stroke-dasharray="{DASHES[style.dash]}"/></svg>'
    )


def command_line(command: str) -> str:
    return (
        f'<div class="command"><pre tabindex="0"><code>{escape(command)}</code></pre>'
        '<button type="button" class="copy">copy</button></div>'
    )


def sortable_heads(names: Iterable[str]) -> str:
    return "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in names)


def scrolling(table: str, what: str, classes: str = "") -> str:
    """A wide table scrolls by itself, also by keyboard, so that the page does not have to."""
    return f'<div class="scroll {classes}" tabindex="0" role="region" aria-label="{escape(what)}">{table}</div>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs) + "</dl>"


def words(name: str) -> str:
    return escape(name.replace("_", " "))


def plain(value: Any) -> str:
    """As text, to be escaped."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")  # a real minus, as wide as the plus


def sort_key(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def spelled(values: Iterable[Any]) -> str:
    """As people list things, each once: "3, 4, 5"."""
    return ", ".join(dict.fromkeys(str(value) for value in values))


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def tallied(values: Iterable[str]) -> str:
    """Each with the number of runs that have it."""
    return "; ".join(f"{value} ({count(number, 'run')})" for value, number in Counter(values).items())
