"""What the pictures show of one network, for the page and for figures: the probe, the units, what happened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adalin.monitor._journal import Journal, Mark, ProbeNote
from adalin.monitor._look import Look
from adalin.monitor._probe import BEHIND
from adalin.monitor._verdict import Diagnosis

COLOURS = {"works": "#b7d6ea", "linear": "#cfcfcf", "saturated": "#e69f00", "dead": "#d55e00"}
"""Colours of what units do."""
WORDS = {"works": "works", "linear": "always linear", "saturated": "saturated", "dead": "dead"}
"""The same for people."""
STATE_COLOURS = {"able": "#00704a", "lost": "#d55e00", "unclear": "#946c00", "no probe": "#5c5c5c"}
"""Colours of the verdict's text."""
BACKGROUNDS = {"able": "#e3f0e9", "lost": "#fbe1d7", "unclear": "#fdf1d6"}
"""Backgrounds of the probe's panel."""
STATE_WORDS = {"able": "can learn", "lost": "has lost plasticity", "unclear": "unclear", "no probe": "no probe yet"}
MOST_LAYERS = 6
"""Layers that get a panel of their own; of deeper networks those in which fewest units work."""


@dataclass(frozen=True)
class Probed:
    """One point of the probe's line."""

    step: int
    ratio: float
    low: float
    high: float
    state: str


@dataclass(frozen=True)
class LayerHistory:
    """What the units of one layer did at each look: shares that add up to 1."""

    name: str
    base: str
    units: int
    steps: Sequence[int]
    shares: Mapping[str, Sequence[float]]
    rank_share: Sequence[float]

    @property
    def works(self) -> Sequence[float]:
        """Share of units that work, at each look."""
        return self.shares["works"]


@dataclass(frozen=True)
class Pictured:
    """All that is drawn of one network."""

    title: str
    diagnosis: Diagnosis
    probes: Sequence[Probed]
    layers: Sequence[LayerHistory]
    values: Mapping[str, Sequence[tuple[int, float]]]
    marks: Sequence[Mark]
    last_step: int
    last_look: Look | None
    first_look: Look | None

    @property
    def worst_layers(self) -> Sequence[LayerHistory]:
        """Those that get a panel, in the network's order."""
        chosen = sorted(self.layers, key=lambda layer: min(layer.works, default=1.0))[:MOST_LAYERS]
        return [layer for layer in self.layers if layer in chosen]


def pictured(title: str, diagnosis: Diagnosis, journal: Journal) -> Pictured:
    """What the journal of one network gives for the pictures."""
    looks, probes = journal.looks, [_probed(note) for note in journal.probes]
    names = {name: None for look in looks for name in look.layers}
    layers = [layer for name in names if (layer := _history(name, looks)) is not None]
    values: dict[str, list[tuple[int, float]]] = {}
    for value in journal.values:
        values.setdefault(value.name, []).append((value.step, value.value))
    if not values:
        values["gradient norm"] = [
            (look.step, look.overall["gradient"]) for look in looks if "gradient" in look.overall
        ]
    steps = [look.step for look in looks] + [probe.step for probe in probes] + [mark.step for mark in journal.marks]
    steps += [step for series in values.values() for step, _ in series]
    first, last = (looks[0], looks[-1]) if looks else (None, None)
    shown = {name: series for name, series in values.items() if series}
    return Pictured(title, diagnosis, probes, layers, shown, journal.marks, max(steps, default=0), last, first)


def _probed(note: ProbeNote) -> Probed:
    low, high = note.result.interval
    state = "lost" if high < BEHIND else "able" if low > BEHIND else "unclear"
    return Probed(note.step, note.result.ratio, low, high, state)


def _history(name: str, looks: Sequence[Look]) -> LayerHistory | None:
    own = [(look, look.layers[name]) for look in looks if "saturated" in look.layers.get(name, {})]
    if not own:
        return None
    shares: dict[str, list[float]] = {key: [] for key in COLOURS}
    for _, numbers in own:
        dead, saturated, linear = (min(1.0, numbers.get(key, 0.0)) for key in ("dead", "saturated", "linear"))
        shares["dead"].append(dead)
        shares["saturated"].append(max(0.0, saturated - dead))
        shares["linear"].append(linear)
        shares["works"].append(max(0.0, 1 - max(saturated, dead) - linear))
    look, numbers = own[-1]
    ranks = [min(1.0, numbers.get("rank_share", 0.0)) for _, numbers in own]
    return LayerHistory(name, look.bases.get(name, ""), int(numbers["units"]), [o.step for o, _ in own], shares, ranks)
