"""HTML as data: elements whose texts and attribute values are escaped, whatever they hold."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

Child: TypeAlias = "Element | str | int | Iterable[Child] | None"
Value: TypeAlias = str | float | None
NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
VOID = {"br", "hr", "img", "input", "link", "meta"}
"""Elements without content and end tag."""
RAW = {"script", "style"}
"""Elements whose content a browser does not unescape: they belong to the template."""


@dataclass(frozen=True)
class Element:
    """An element of a page: made by `h`, turned into HTML by `str`."""

    tag: str
    attributes: Mapping[str, str | float]
    """Values by name; True stands for a bare attribute."""
    children: tuple["Element | str", ...]

    def __post_init__(self) -> None:
        for name in (self.tag, *self.attributes):
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of an element or attribute")
        if self.tag in RAW or (self.tag in VOID and self.children):
            raise ValueError(f"{self.tag!r} cannot be an element with content")

    def __str__(self) -> str:
        start = self.tag
        for name, value in self.attributes.items():
            start += f" {name}" if value is True else f' {name}="{escape(str(value))}"'
        return f"<{start}>" if self.tag in VOID else f"<{start}>{to_html(self.children)}</{self.tag}>"


def h(tag: str, /, *children: Child, **attributes: Value) -> Element:
    """Make an element; `class_` is the attribute class and `data_value` is data-value.

    Nested children are flattened. A child None, and an attribute None or False, is left out.

    >>> print(h("td", "1 < 2", [h("br"), None], class_="none", data_value=3, hidden=True))
    <td class="none" data-value="3" hidden>1 &lt; 2<br></td>
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    kept = {name: value for name, value in named.items() if value is not None and value is not False}
    return Element(tag, kept, tuple(_flat(children)))


def to_html(*children: Child) -> str:
    """The HTML of elements and texts, one after the other."""
    return "".join(str(child) if isinstance(child, Element) else escape(child) for child in _flat(children))


def _flat(children: Iterable[Child]) -> Iterator[Element | str]:
    for child in children:
        if isinstance(child, Element | str):
            yield child
        elif isinstance(child, Iterable):
            yield from _flat(child)
        elif child is not None:
            yield str(child)
