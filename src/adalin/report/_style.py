"""One colour, dash and marker per method, in every figure and on the page."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adalin.methods import Method
from adalin.optim import SGD

# Okabe and Ito's colours, told apart by people who are colour-blind; black and yellow replaced.
BLUE = "#0072B2"
"""Okabe and Ito's blue: AdaLin's colour."""
VERMILION = "#D55E00"
"""Okabe and Ito's vermilion: the colour of ReLU without anything."""
GREEN = "#009E73"
"""Okabe and Ito's bluish green: the colour of Fourier features."""
PINK = "#CC79A7"
ORANGE = "#E69F00"
"""Okabe and Ito's orange: the colour of deep linear networks."""
SKY = "#56B4E9"
PURPLE = "#7A5195"
"""A purple in the place of their yellow: the colour of Shrink & Perturb."""
GREY = "#6B6B6B"
"""A grey in the place of their black: the colour of training from scratch."""
# Tol's muted colours and two between them.
OLIVE = "#999933"
WINE = "#AA3377"
INDIGO = "#332288"
TEAL = "#44AA99"
FOREST = "#117733"
CYAN = "#88CCEE"
ROSE = "#CC6677"
MAGENTA = "#AA4499"
BROWN = "#8C564B"
SAND = "#C9A227"
BLACK = "#333333"
COLOURS = (INDIGO, TEAL, FOREST, CYAN, ROSE, MAGENTA, BROWN, SAND)
"""Colours of methods that have no style of their own."""
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Style:
    """How the line of a setting looks."""

    colour: str
    """Colour in HTML's notation: "#0072B2"."""
    dash: str = "solid"
    """Dash: solid, or dash for an activation without AdaLin beside that with it."""
    marker: str = "o"
    """Marker in matplotlib's letters."""


STYLES = {
    "baseline": Style(VERMILION, marker="s"),
    "adalin": Style(BLUE, marker="o"),
    "fourier": Style(GREEN, marker="D"),
    "crelu": Style(PINK, marker="^"),
    "linear": Style(ORANGE, marker="v"),
    "scratch": Style(GREY, marker="P"),
    "l2": Style(SKY, marker="X"),
    "shrink-perturb": Style(PURPLE, marker="*"),
    # A base and its AdaLin share a colour; the base is dashed, and nothing else is.
    "adalin-tanh": Style(OLIVE, marker="D"),
    "tanh": Style(OLIVE, "dash", "D"),
    "adalin-gelu": Style(WINE, marker="v"),
    "gelu": Style(WINE, "dash", "v"),
    "adalin:gate=none": Style(INDIGO, marker="P"),
    "adalin:granularity=layer": Style(TEAL, marker="^"),
    "adalin:granularity=network": Style(BROWN, marker="s"),
    "adalin-gelu:gate=none": Style(ROSE, marker="v"),
    "adalin-tanh:gate=linear": Style(FOREST, marker="^"),
    "adalin-tanh:gate=quadratic": Style(CYAN, marker="s"),
    "interpolation": Style(MAGENTA, marker="P"),
    "leaky_relu": Style(SAND, marker="P"),
    "prelu": Style(BLACK, marker="X"),
}
"""Styles of known methods, by their text without an optimiser; in lists, these come in this order and before others."""


def styles_of(methods: Sequence[str]) -> list[Style]:
    """The styles of settings that are shown together: where two have one colour, they differ in shade."""
    styles = []
    seen = Counter[tuple[str, str]]()
    for method in methods:
        style = style_of(method)
        number = seen[style.colour, style.dash]
        marker = MARKERS[(MARKERS.index(style.marker) + number) % len(MARKERS)]
        styles.append(replace(style, colour=_lighter(style.colour, 1 - 0.7**number), marker=marker))
        seen[style.colour, style.dash] += 1
    return styles


def rank_of(method: str) -> int:
    """The place of a method in lists: those with a style of their own in the order of these, then all others alike."""
    return list(STYLES).index(method) if method in STYLES else len(STYLES)


def style_of(method: str) -> Style:
    """The style of a method's text, the same with every optimiser: its own, or one that follows from the text."""
    try:
        alone = replace(Method.parse(method), optimizer=SGD())
    except ValueError:  # a plugin's that is not loaded
        return _style_from(method)
    text = str(alone)
    return STYLES[text] if text in STYLES else _style_from(text)


def _style_from(text: str) -> Style:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return Style(COLOURS[number % len(COLOURS)], marker=MARKERS[number // 8 % 8])


def _lighter(colour: str, share: float) -> str:
    """A colour with a share of white."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(value + (255 - value) * share):02X}" for value in (red, green, blue))
