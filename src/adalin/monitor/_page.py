"""The report as one HTML page: no network, no script, no library; pictures are inline SVG."""

import math
from collections.abc import Sequence
from html import escape

from adalin.monitor._look import Look, layer_label
from adalin.monitor._picture import (
    BACKGROUNDS,
    COLOURS,
    STATE_COLOURS,
    STATE_WORDS,
    WORDS,
    LayerHistory,
    Pictured,
)
from adalin.monitor._probe import BEHIND
from adalin.monitor._table import COLUMNS

WIDTH, HEIGHT = 380, 190
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 14, 26
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, sans-serif; color: #1d1d1d; background: #fff; margin: 0 auto; padding: 20px 16px 40px;
  max-width: 1300px; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.25rem; margin: 2rem 0 .2rem; overflow-wrap: anywhere; }
h3 { font-size: .95rem; margin: 0 0 .2rem; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
.state { font-weight: 700; font-size: 1.1rem; }
.note { color: #555; font-size: .9rem; }
ul { margin: .3rem 0; padding-left: 1.3rem; }
li { overflow-wrap: anywhere; }
code { background: #f1f1f1; padding: .1em .3em; border-radius: 3px; }
.panels { display: grid; gap: 18px 24px; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr)); }
figure { margin: 0; min-width: 0; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #444; }
.key { display: inline-block; margin-right: 1em; white-space: nowrap; font-size: .9rem; }
.key i { display: inline-block; width: .9em; height: .9em; margin-right: .3em; vertical-align: -.1em;
  border-radius: 2px; }
.scroll { overflow-x: auto; margin-top: 1rem; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e2e2e2; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
"""


def page_of(networks: Sequence[Pictured]) -> str:
    """The whole page."""
    body = "".join(_section(network, alone=len(networks) == 1) for network in networks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Can these weights still learn?</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        "<h1>Can these weights still learn?</h1>\n"
        '<p class="note">The probe compares these weights with fresh ones on new random targets: it measures now and '
        "does not forecast. What units do says why.</p>\n"
        f"{body}</body>\n</html>\n"
    )


def _section(network: Pictured, *, alone: bool) -> str:
    found = network.diagnosis
    parts = ["<section>\n", f"<h2>{escape(network.title)}</h2>\n"]
    words = STATE_WORDS[found.state]
    if found.probe is not None:
        low, high = found.probe.interval
        words += f": {found.probe.ratio:.2f} [{low:.2f}, {high:.2f}] of a fresh network's progress"
    parts.append(f'<p class="state" style="color:{STATE_COLOURS[found.state]}">{escape(words)}</p>\n')
    parts.append(f"<p>{escape(found.sentence)}</p>\n")
    parts.append(_list("Evidence", [escape(line) for line in found.evidence]))
    tries = [
        escape(remedy.text) + (f": <code>{escape(remedy.code)}</code>" if remedy.code else "")
        for remedy in found.remedies
    ]
    parts.append(_list("What others report to help", tries))
    keys = [
        f'<span class="key"><i style="background:{COLOURS[name]}"></i>{text}</span>' for name, text in WORDS.items()
    ]
    keys.append('<span class="key">- - effective rank, of the largest possible</span>')
    parts.append(f"<p>{''.join(keys)}</p>\n" if network.layers else "")
    panels = [_probe_panel(network)] if network.probes else []
    panels += [_layer_panel(network, layer) for layer in network.worst_layers]
    if len(network.layers) > len(network.worst_layers):
        panels.append(_heat_panel(network))
    panels += [_value_panel(network, name, series) for name, series in network.values.items()]
    parts.append(f'<div class="panels">\n{"".join(panels)}</div>\n')
    if network.last_look is not None:
        parts.append(_table(network.last_look, network.first_look))
    return "".join([*parts, "</section>\n"])


def _list(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f"<h3>{title}</h3>\n<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>\n"


class _Axes:
    """Places of numbers in one panel."""

    def __init__(self, last_step: int, high: float, low: float = 0.0) -> None:
        self._last, self._low, self._high = max(last_step, 1), low, high if high > low else low + 1

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(step / self._last, 0), 1)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(max(share, 0), 1))

    def line(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(step):.1f},{self.y(value):.1f}" for step, value in points)

    def frame(self, ticks: Sequence[tuple[float, str]]) -> str:
        base = self.y(self._low)
        parts = [f'<path d="M{LEFT} {TOP}V{base:.1f}H{WIDTH - RIGHT}" fill="none" stroke="#777"/>']
        for value, text in ticks:
            y = self.y(value)
            parts.append(f'<path d="M{LEFT - 4} {y:.1f}h4" stroke="#777"/>')
            parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
        parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">step 0</text>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{self._last:,}</text>')
        return "".join(parts)


def _marks(network: Pictured, axes: _Axes, *, named: bool) -> str:
    parts = []
    few = len(network.marks) <= 3
    for mark in network.marks:
        x = axes.x(mark.step)
        parts.append(
            f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#222" stroke-width="1" stroke-dasharray="2 3">'
            f"<title>{escape(mark.text)}, step {mark.step:,}</title></path>"
        )
        if named and few:
            end = x > WIDTH * 0.6
            anchor = 'text-anchor="end" ' if end else ""
            parts.append(
                f'<text {anchor}x="{x - 4 if end else x + 4:.1f}" y="{TOP - 3}">{escape(mark.text[:28])}</text>'
            )
    return "".join(parts)


def _panel(title: str, content: str, description: str) -> str:
    return (
        f"<figure><h3>{escape(title)}</h3>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">{content}</svg></figure>\n'
    )


def _probe_panel(network: Pictured) -> str:
    probes = network.probes
    tops = [min(probe.high, 2 * probe.ratio + 0.5) for probe in probes]
    axes = _Axes(network.last_step, max(1.25, *(1.05 * top for top in tops)))
    parts = []
    for i, probe in enumerate(probes):
        begin = 0 if i == 0 else (probes[i - 1].step + probe.step) / 2
        end = network.last_step if i == len(probes) - 1 else (probe.step + probes[i + 1].step) / 2
        x, width = axes.x(begin), axes.x(end) - axes.x(begin)
        parts.append(
            f'<rect x="{x:.1f}" y="{TOP}" width="{max(width, 0) + 0.4:.1f}" height="{HEIGHT - TOP - BOTTOM}" '
            f'fill="{BACKGROUNDS[probe.state]}"/>'
        )
    colour = STATE_COLOURS[probes[-1].state]
    band = [(p.step, p.low) for p in probes] + [(p.step, p.high) for p in reversed(probes)]
    parts.append(f'<polygon points="{axes.line(band)}" fill="{colour}" opacity=".25"/>')
    for value, dash in ((1.0, "5 4"), (BEHIND, "1 3")):
        y = axes.y(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#666" stroke-dasharray="{dash}" fill="none"/>')
    line = axes.line([(p.step, p.ratio) for p in probes])
    parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
    for probe in probes:
        x, y = axes.x(probe.step), axes.y(probe.ratio)
        text = f"step {probe.step:,}: {probe.ratio:.2f} [{probe.low:.2f}, {probe.high:.2f}], {STATE_WORDS[probe.state]}"
        low, high = axes.y(probe.low), axes.y(probe.high)
        parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" opacity=".6"/>')
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{escape(text)}</title></circle>'
        )
    parts.append(axes.frame([(0, "0"), (0.8, "0.8"), (1, "1")] if max(tops) < 2 else [(0, "0"), (1, "1"), (2, "2")]))
    parts.append(_marks(network, axes, named=True))
    return _panel("probe: progress / a fresh network's", "".join(parts), "the probe over time")


def _layer_panel(network: Pictured, layer: LayerHistory) -> str:
    axes = _Axes(network.last_step, 1.0)
    steps = list(layer.steps)
    below = [0.0] * len(steps)
    parts = []
    for name, colour in COLOURS.items():
        above = [low + share for low, share in zip(below, layer.shares[name], strict=True)]
        top = [*zip(steps, above, strict=True), (network.last_step, above[-1])]
        bottom = [(network.last_step, below[-1]), *reversed(list(zip(steps, below, strict=True)))]
        text = f"{WORDS[name]}: {layer.shares[name][-1]:.0%} at the end"
        parts.append(f'<polygon points="{axes.line([*top, *bottom])}" fill="{colour}"><title>{text}</title></polygon>')
        below = above
    ranks = [*zip(steps, layer.rank_share, strict=True), (network.last_step, layer.rank_share[-1])]
    parts.append(
        f'<polyline points="{axes.line(ranks)}" fill="none" stroke="#222" stroke-width="1.6" stroke-dasharray="5 3"/>'
    )
    parts.append(axes.frame([(0, "0"), (0.5, "50 %"), (1, "100 %")]))
    parts.append(_marks(network, axes, named=False))
    title = f"{layer_label(layer.name)} ({layer.base}), {layer.units:,} units"
    return _panel(title, "".join(parts), f"what the units of {layer_label(layer.name)} do over time")


def _heat_panel(network: Pictured) -> str:
    """One row per layer: the share of its units that work."""
    axes = _Axes(network.last_step, 1.0)
    rows = len(network.layers)
    height = (HEIGHT - TOP - BOTTOM) / rows
    parts = []
    for i, layer in enumerate(network.layers):
        for k, step in enumerate(layer.steps):
            end = layer.steps[k + 1] if k + 1 < len(layer.steps) else network.last_step
            x = axes.x(step)
            text = f"{layer_label(layer.name)}, step {step:,}: {layer.works[k]:.0%} of units work"
            parts.append(
                f'<rect x="{x:.1f}" y="{TOP + i * height:.2f}" width="{max(axes.x(end) - x, 1):.1f}" '
                f'height="{height + 0.3:.2f}" fill="{_heat(layer.works[k])}"><title>{escape(text)}</title></rect>'
            )
    parts.append(axes.frame([(1, "first"), (0, "last")]))
    return _panel(f"share of units that work, {rows} layers", "".join(parts), "share of units that work in each layer")


def _heat(share: float) -> str:
    """From the colour of dead units to that of those that work."""
    dead, works = (213, 94, 0), (183, 214, 234)
    share = 0.0 if math.isnan(share) else share
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(dead, works, strict=True))


def _value_panel(network: Pictured, name: str, series: Sequence[tuple[int, float]]) -> str:
    finite = [(step, value) for step, value in series if math.isfinite(value)]
    values = [value for _, value in finite] or [0.0]
    low, high = min(0.0, *values), max(values)
    high = 1.0 if 0.5 < high <= 1 and low == 0 else high
    axes = _Axes(network.last_step, high, low)
    line = f'<polyline points="{axes.line(finite)}" fill="none" stroke="#222" stroke-width="1.8"/>'
    ticks = [(low, f"{low:.3g}"), (high, f"{high:.3g}")]
    return _panel(name, line + axes.frame(ticks) + _marks(network, axes, named=True), f"{name} over time")


def _table(look: Look, first: Look | None) -> str:
    head = ["layer", "activation", "units", *(text for _, text in COLUMNS), "effective rank", "at first"]
    rows = []
    for name, numbers in look.layers.items():
        shares = [f"{numbers[key]:.0%}" if key in numbers else "-" for key, _ in COLUMNS]
        before = {} if first is None else first.layers.get(name, {})
        ranks = [f"{own['rank']:.1f}" if "rank" in own else "-" for own in (numbers, before)]
        rows.append([name, look.bases.get(name, ""), f"{numbers['units']:.0f}", *shares, *ranks])
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    heads = "".join(f"<th>{text}</th>" for text in head)
    return f'<div class="scroll"><table>\n<tr>{heads}</tr>\n{cells}</table></div>\n'
