"""One colour, dash and marker per method, in every figure and on the page."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
# Tol's.
OLIVE = "#999933"
WINE = "#AA3377"
COLOURS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, PURPLE, GREY)
"""Colours of methods that have no style of their own."""
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Style:
    """How the line of a setting looks."""

    colour: str
    """Colour in HTML's notation: "#0072B2"."""
    dash: str = "solid"
    """Dash: solid, dash, dot or dashdot."""
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
    # A base and its AdaLin share a colour; the base is dashed.
    "adalin-tanh": Style(OLIVE, marker="D"),
    "tanh": Style(OLIVE, "dash", "D"),
    "adalin-gelu": Style(WINE, marker="v"),
    "gelu": Style(WINE, "dash", "v"),
    # So do AdaLin and its variants.
    "adalin:gate=none": Style(BLUE, "dash", "o"),
    "adalin:granularity=layer": Style(BLUE, "dot", "^"),
    "adalin:granularity=network": Style(BLUE, "dashdot", "s"),
    "adalin-gelu:gate=none": Style(WINE, "dot", "v"),
    "adalin-tanh:gate=linear": Style(OLIVE, "dot", "^"),
    "adalin-tanh:gate=quadratic": Style(OLIVE, "dashdot", "s"),
    "interpolation": Style(SKY, "dash", "P"),
    "leaky_relu": Style(VERMILION, "dash", "P"),
    "prelu": Style(GREY, "dash", "X"),
}
"""Styles of known methods, by their text; where methods are listed, these come in this order and before others."""


def styles_of(methods: Sequence[str]) -> list[Style]:
    """The styles of settings that are shown together, by their methods: those of one method differ in their dashes."""
    styles = []
    seen = Counter[str]()
    for method in methods:
        style = style_of(method)
        dash = DASHES[(DASHES.index(style.dash) + seen[method]) % len(DASHES)]
        styles.append(replace(style, dash=dash))
        seen[method] += 1
    return styles


def style_of(method: str) -> Style:
    """The style of a method's text: its own, or one that follows from the text."""
    if method in STYLES:
        return STYLES[method]
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:4], "big")
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[1 + number // 8 % 3]  # solid lines are for known methods
    return Style(colour, dash, MARKERS[number // 24 % 8])
