"""The picture as a figure of matplotlib, for papers: one column per network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adalin.monitor._look import layer_label
from adalin.monitor._picture import BACKGROUNDS, COLOURS, STATE_COLOURS, STATE_WORDS, WORDS, Pictured
from adalin.monitor._probe import BEHIND

SMALL = 11
"""Size of the texts inside panels: they stay legible at half the picture's size."""


def save_figure(networks: Sequence[Pictured], path: Path, *, title: str = "Can these weights still learn?") -> None:
    """Draw the probe, the units of each layer and what happened, and save it; the name's end says as what."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(f"{path.suffix} needs matplotlib: install it, or write a page (.html)") from None
    layers = max((len(network.worst_layers) for network in networks), default=0)
    rows = [1.35, *[0.9] * layers, 1.0]
    figure = Figure(figsize=(max(7.0, 4.6 * len(networks)), 1.75 * sum(rows) + 1.0), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=15, fontweight="bold")

    grid = figure.subplots(len(rows), len(networks), squeeze=False, sharex="col", height_ratios=rows)
    for column, network in enumerate(networks):
        axes = list(grid[:, column])
        _draw_probe(axes[0], network)
        for i, own in enumerate(axes[1:-1]):
            if i < len(network.worst_layers):
                _draw_layer(own, network, i)
            else:
                own.axis("off")
        _draw_values(axes[-1], network)
        for own in axes:
            own.set_xlim(0, max(network.last_step, 1))
            own.spines[["top", "right"]].set_visible(False)
            own.tick_params(labelsize=SMALL)
            own.yaxis.label.set_size(SMALL)
            for mark in network.marks:
                own.axvline(mark.step, color="#222", linewidth=1, linestyle=(0, (2, 2)))
        axes[-1].set_xlabel("step", fontsize=SMALL)
        axes[-1].xaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    figure.savefig(path, dpi=150)


def _draw_probe(axes: Any, network: Pictured) -> None:
    found, probes = network.diagnosis, network.probes
    words = STATE_WORDS[found.state]
    if found.probe is not None:
        low, high = found.probe.interval
        words += f"   {found.probe.ratio:.2f} [{low:.2f}, {high:.2f}]"
    if network.title:
        axes.set_title(network.title, loc="left", fontsize=12, fontweight="bold", pad=22)
    colour = STATE_COLOURS[found.state]
    axes.text(0, 1.04, words, transform=axes.transAxes, color=colour, fontsize=11, fontweight="bold")
    axes.axhline(1, color="#666", linestyle="--", linewidth=1)
    axes.axhline(BEHIND, color="#d55e00", linestyle=":", linewidth=1.2)
    axes.set_ylabel("probe: progress /\na fresh network's")
    top = 1.3
    named = ""
    for i, probe in enumerate(probes):
        begin = 0 if i == 0 else (probes[i - 1].step + probe.step) / 2
        end = network.last_step if i == len(probes) - 1 else (probe.step + probes[i + 1].step) / 2
        axes.axvspan(begin, end, color=BACKGROUNDS[probe.state], linewidth=0)
        top = max(top, 1.1 * min(probe.high, 2 * probe.ratio + 0.5))
        if probe.state != named:
            named = probe.state
            place = {"transform": axes.get_xaxis_transform(), "fontsize": SMALL, "color": "#444", "va": "top"}
            words = STATE_WORDS[probe.state].replace("has lost plasticity", "lost")
            axes.text(begin + 0.01 * network.last_step, 0.97, words, **place)
    if probes:
        steps, ratios = [probe.step for probe in probes], [probe.ratio for probe in probes]
        axes.fill_between(steps, [p.low for p in probes], [p.high for p in probes], color="#222", alpha=0.2, lw=0)
        axes.plot(steps, ratios, color="#222", marker="o", markersize=4)
    axes.set_ylim(0, top)
    place = {"transform": axes.get_yaxis_transform(), "ha": "right", "fontsize": SMALL}
    axes.text(0.995, 1.02, "a fresh network", color="#555", va="bottom", **place)
    axes.text(0.995, BEHIND - 0.03, "lost if the interval is below", color="#d55e00", va="top", **place)


def _draw_layer(axes: Any, network: Pictured, which: int) -> None:
    layer = network.worst_layers[which]
    steps = [*layer.steps, network.last_step]
    stacks = [[100 * share for share in (*layer.shares[name], layer.shares[name][-1])] for name in COLOURS]
    axes.stackplot(steps, stacks, colors=list(COLOURS.values()), linewidth=0)
    ranks = [100 * share for share in (*layer.rank_share, layer.rank_share[-1])]
    axes.plot(steps, ranks, color="#222", linestyle="--", linewidth=1.5)
    axes.set_ylim(0, 100)
    axes.set_ylabel(f"{layer_label(layer.name)}\nunits, %")
    if which == 0:
        _name_areas(axes, stacks, steps)
        k = min(max(range(len(ranks)), key=lambda i: ranks[i]), len(ranks) - max(2, len(ranks) // 4))
        axes.annotate("effective rank", (steps[k], ranks[k]), (0, -16), textcoords="offset points", fontsize=SMALL)


def _name_areas(axes: Any, stacks: Sequence[Sequence[float]], steps: Sequence[int]) -> None:
    """Each area's name where it is highest."""
    below = [0.0] * len(steps)
    inner = range(len(steps) // 8, max(1, len(steps) - len(steps) // 5))
    for name, stack in zip(COLOURS, stacks, strict=True):
        k = max(inner, key=lambda i: stack[i])
        if stack[k] > 20:
            colour = "white" if name == "dead" else "#333"
            middle = below[k] + stack[k] / 2
            axes.text(steps[k], middle, WORDS[name], ha="center", va="center", fontsize=SMALL, color=colour)
        below = [low + share for low, share in zip(below, stack, strict=True)]


def _draw_values(axes: Any, network: Pictured) -> None:
    if not network.values:
        axes.axis("off")
        return
    name, series = next(iter(network.values.items()))
    axes.plot([step for step, _ in series], [value for _, value in series], color="#222", marker="s", markersize=3)
    axes.set_ylabel(name.replace("_", " "))
    axes.set_ylim(bottom=0)
    for mark in network.marks[:4]:
        place = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "fontsize": SMALL}
        axes.annotate(mark.text, (mark.step, 0), (5, 5), **place)
