"""Names as parts of paths, and paths as parts of messages."""

import os
import unicodedata
from pathlib import Path

from adalin._text import printable

MOST_BYTES = 255
"""Length of the longest file name that file systems take."""

_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control characters, of what has no width, of broken surrogates and of line ends."""


def path_part(name: str, what: str = "name") -> str:
    """A name that is safe as one component of a path: the name itself, or ValueError in one line.

    Whoever takes a name from a file, a command line or a plugin to a path passes it through here, one component at a
    time.

    Examples:
        >>> path_part("sac-Hopper-v4")
        'sac-Hopper-v4'
        >>> path_part("../up", "benchmark")
        Traceback (most recent call last):
            ...
        ValueError: benchmark '../up' cannot be the name of a folder: it has a path separator
    """
    if not isinstance(name, str):
        problem = "it is not a text"
    elif not name.strip():
        problem = "it is empty"
    elif "/" in name or "\\" in name:
        problem = "it has a path separator"
    elif name.startswith("."):
        problem = "it begins with a dot"
    elif any(unicodedata.category(sign) in _INVISIBLE for sign in name):
        problem = "it has control characters"
    elif len(name.encode()) > MOST_BYTES:
        problem = f"it has more than {MOST_BYTES} bytes"
    else:
        return name
    shown = repr(name)
    shown = shown if len(shown) <= 80 else f"{shown[:40]}..."
    raise ValueError(f"{what} {shown} cannot be the name of a folder: {problem}")


def shown_path(path: Path | str) -> str:
    """A path for a message: one line, without control characters, whatever bytes it is made of.

    Examples:
        >>> shown_path("runs/two\\nlines")
        'runs/two?lines'
    """
    text = os.fsencode(path).decode(errors="replace")
    return printable(text.replace("\n", "?").replace("\t", "?"))
