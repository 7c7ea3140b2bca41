"""One colour, dash and marker per method, in every figure and on the page."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, PURPLE, GREY, OLIVE, WINE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7A5195",
    "#6B6B6B",
    "#999933",
    "#AA3377",
)
"""Okabe and Ito's colours, told apart by people who are colour-blind; black and yellow replaced. The last two are
Tol's."""
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Style:
    colour: str
    dash: str = "solid"
    """solid, dash, dot or dashdot."""
    marker: str = "o"
    """In matplotlib's letters."""


STYLES = {
    # In the order of the paper's main figure, then what its other figures compare.
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


def rank_of(method: str) -> int:
    """Its place among methods: those of the paper's main figure come first, those without a style of their own last."""
    return list(STYLES).index(method) if method in STYLES else len(STYLES)


def styles_of(methods: Sequence[str]) -> list[Style]:
    """Of the methods of settings that are shown together: those of one method are told apart by their dashes."""
    styles = []
    for index, method in enumerate(methods):
        style, before = style_of(method), list(methods[:index]).count(method)
        styles.append(replace(style, dash=DASHES[(DASHES.index(style.dash) + before) % len(DASHES)]))
    return styles


def style_of(method: str) -> Style:
    """Of a method's text; those without one of their own always get the same, by their name."""
    if method in STYLES:
        return STYLES[method]
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:4], "big")
    colours = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, PURPLE, GREY)
    return Style(colours[number % 8], DASHES[1 + number // 8 % 3], MARKERS[number // 24 % 8])
