"""Small pieces of text that messages of all rooms have."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append to a message about an unknown name; empty if nothing is similar."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def duration(seconds: float) -> str:
    """Seconds in the unit that people would use: "90 s", "5 min", "2.5 h"."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h"


def count(number: int, thing: str) -> str:
    """A number with its noun: "1 run", "2,000 runs"."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def printable(text: str) -> str:
    """A text from a file or another machine, safe for a terminal: control characters become "?"."""
    return "".join(
        "?" if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t" else sign for sign in text
    )
