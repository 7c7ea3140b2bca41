"""One colour, dash and marker per method, in every figure and on the page."""

import hashlib
from dataclasses import dataclass

BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, PURPLE, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7A5195",
    "#6B6B6B",
)
"""Okabe and Ito's colours, told apart by people who are colour-blind; black and yellow replaced."""
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
    "baseline": Style(VERMILION, marker="s"),
    "adalin": Style(BLUE, marker="o"),
    "fourier": Style(GREEN, marker="D"),
    "crelu": Style(PINK, marker="^"),
    "linear": Style(ORANGE, marker="v"),
    "scratch": Style(GREY, marker="P"),
    "l2": Style(SKY, marker="X"),
    "shrink-perturb": Style(PURPLE, marker="*"),
    # A base and its AdaLin share a colour; the base is dashed.
    "tanh": Style(GREEN, "dash", "D"),
    "adalin-tanh": Style(GREEN, marker="D"),
    "gelu": Style(PURPLE, "dash", "v"),
    "adalin-gelu": Style(PURPLE, marker="v"),
    # So do AdaLin and AdaLin without its gate.
    "adalin:gate=none": Style(BLUE, "dash", "o"),
    "adalin-gelu:gate=none": Style(PURPLE, "dot", "v"),
    "prelu": Style(SKY, marker="X"),
    "leaky_relu": Style(ORANGE, "dash", "P"),
    "interpolation": Style(ORANGE, marker="P"),
}


def style_of(method: str) -> Style:
    """Of a method's text; those without one of their own always get the same, by their name."""
    if method in STYLES:
        return STYLES[method]
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:4], "big")
    colours = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, PURPLE, GREY)
    return Style(colours[number % 8], DASHES[1 + number // 8 % 3], MARKERS[number // 24 % 8])
