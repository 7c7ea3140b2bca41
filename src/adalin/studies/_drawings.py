"""How the figures are drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from adalin.methods import Method
from adalin.models import make_model
from adalin.nn import AdaLin, split_parameters
from adalin.report import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    Summary,
    Values,
    draw_curves,
    legend_of,
    share_accuracies,
)


@dataclass(frozen=True)
class Panel:
    """One part of a figure: the settings of one benchmark that are compared."""

    title: str
    """Heading of the panel."""
    summaries: Sequence[Summary]
    """Settings that are compared."""


def curves(panels: Sequence[Panel], metric: str | None = None) -> Figure:
    """A panel per benchmark; one legend for all, in the place of a panel where one is empty."""
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.2 * columns, 3 * rows + 0.4), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    shown, empty = list(grid.flat[: len(panels)]), list(grid.flat[len(panels) :])
    for axes, panel in zip(shown, panels, strict=True):
        draw_curves(axes, panel.summaries, metric)
        axes.set_title(panel.title, loc="left", fontsize="medium", fontweight="bold")
        if not axes.lines:
            axes.text(0.5, 0.5, "no run yet", transform=axes.transAxes, ha="center", color=GREY)
    share_accuracies(shown)
    for axes in empty:
        axes.axis("off")
    handles, labels = legend_of(shown)
    if empty:
        empty[0].legend(handles, labels, loc="center left", frameon=False)
    else:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, 2 * columns), frameon=False)
    return figure


def heat_maps(panels: Sequence[Panel]) -> Figure:
    """Alpha (left) and saturation (right) of one run per benchmark; neurons sorted by their saturation at the end."""
    figure = Figure(figsize=(10, 3.6 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 2, squeeze=False)
    for (left, right), panel in zip(grid, panels, strict=True):
        runs = chain.from_iterable(summary.results for summary in panel.summaries)
        shown = next((run for run in runs if any(row.get("alpha") for row in run.rows)), None)
        if shown is None:
            left.set_title(f"{panel.title}: no run yet", loc="left", fontsize="medium")
            continue
        rows = [row for row in shown.rows if row.get("alpha")]
        neurons = _neurons(rows)
        title, seed = panel.title, shown.run.seed
        reach = max(float(np.abs(neurons.alpha).max()), 1e-6)
        _heat_map(left, neurons, neurons.alpha, f"{title}: alpha (seed {seed})", cmap="RdBu_r", vmin=-reach, vmax=reach)
        _heat_map(
            right, neurons, neurons.saturation, f"{title}: saturation (seed {seed})", cmap="viridis", vmin=0.0, vmax=1.0
        )
    return figure


@dataclass(frozen=True, eq=False)
class _Neurons:
    """All neurons of a network, layer below layer."""

    alpha: Values
    """Alpha, (neurons, tasks)."""
    saturation: Values
    """Saturation, (neurons, tasks)."""
    borders: list[int]
    """Numbers of the neurons with which the second and later layers begin."""


def _neurons(rows: Sequence[dict[str, list[list[float]]]]) -> _Neurons:
    alphas, saturations = [], []
    for layer in range(len(rows[0]["alpha"])):
        saturation = np.array([row["saturation"][layer] for row in rows]).T
        alpha = np.broadcast_to(np.array([row["alpha"][layer] for row in rows]).T, saturation.shape)
        order = saturation[:, -1].argsort()
        alphas.append(alpha[order])
        saturations.append(saturation[order])
    borders = list(accumulate(len(layer) for layer in saturations[:-1]))
    return _Neurons(np.concatenate(alphas), np.concatenate(saturations), borders)


def _heat_map(axes: Axes, neurons: _Neurons, values: Values, title: str, **colours: Any) -> None:
    count, tasks = values.shape
    extent = (0.5, tasks + 0.5, count - 0.5, -0.5)  # tasks are counted from 1, as in curves
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent, **colours)
    for border in neurons.borders:
        axes.axhline(border - 0.5, color="white", linewidth=2)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.set_xlabel("task")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("neuron, layer by layer")
    axes.figure.colorbar(image, ax=axes)


def _layer(alpha: float, base: str = "tanh") -> AdaLin:
    return AdaLin(base, 1, init=alpha, dtype=torch.float64)


def _value_and_slope(layer: AdaLin, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """f and f' as the layer itself computes them."""
    inputs = x[:, None].clone().requires_grad_()
    outputs = layer(inputs)
    (slope,) = torch.autograd.grad(outputs.sum(), inputs)
    return outputs.detach()[:, 0], slope[:, 0]


def _shade_saturation(axes: Axes, x: torch.Tensor) -> None:
    """Where the gate is almost open; it is what alpha = 1 adds to the slope."""
    _, plain = _value_and_slope(_layer(0.0), x)
    _, open_ = _value_and_slope(_layer(1.0), x)
    gate = open_ - plain
    low, high = axes.get_ylim()
    axes.fill_between(x, low, high, where=(gate > 0.9).tolist(), color=GREY, alpha=0.15, linewidth=0, label="saturated")
    axes.set_ylim(low, high)


def derivative(panels: Sequence[Panel] = ()) -> Figure:
    """f'(x) = phi'(x) + alpha g(x) of AdaLin on Tanh."""
    x = torch.linspace(-4, 4, 801, dtype=torch.float64)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for alpha, colour in ((-0.5, VERMILION), (-0.2, ORANGE), (0.0, GREY), (0.2, GREEN), (0.5, BLUE), (1.0, PURPLE)):
        _, slope = _value_and_slope(_layer(alpha), x)
        name = "alpha = 0 (tanh)" if alpha == 0 else f"alpha = {alpha:g}"
        axes.plot(x, slope, color=colour, linestyle="--" if alpha == 0 else "-", label=name)
    _shade_saturation(axes, x)
    _finish(axes, "x", "derivative of the output")
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def mechanism(panels: Sequence[Panel] = ()) -> Figure:
    """A network of tanh units; what is injected; the same neuron in and out of saturation."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    network, injection, neuron = figure.subplots(1, 3, width_ratios=(1, 1.1, 1.3))
    _draw_network(network)
    x = torch.linspace(-4, 4, 801, dtype=torch.float64)
    alpha = 0.3
    base, _ = _value_and_slope(_layer(0.0), x)
    whole, slope = _value_and_slope(_layer(alpha), x)
    injection.plot(x, base, color=GREY, linestyle="--", label="tanh(x)")
    injection.plot(x, whole - base, color=ORANGE, label="alpha x g(x), what is injected")
    injection.plot(x, whole, color=BLUE, label=f"AdaLin, alpha = {alpha}")
    _shade_saturation(injection, x)
    _finish(injection, "x", "output", "what is injected, and where")
    injection.legend(frameon=False, fontsize="small")
    _, plain = _value_and_slope(_layer(0.0), x)
    neuron.plot(x, plain, color=GREY, linestyle="--", label="tanh")
    neuron.plot(x, slope, color=BLUE, label=f"AdaLin, alpha = {alpha}")
    for place, name, colour, text_at in (
        (0.3, "active neuron", GREEN, (0.75, 0.95)),
        (3.0, "saturated neuron", VERMILION, (1.5, 0.5)),
    ):
        index = int((x - place).abs().argmin())
        neuron.plot([place, place], [plain[index], slope[index]], color=colour, marker="o", linewidth=2)
        text = f"{name}:\ngradient {plain[index]:.2f} → {slope[index]:.2f}"
        neuron.text(*text_at, text, fontsize="small", color=colour)
    _shade_saturation(neuron, x)
    _finish(neuron, "x", "derivative of the output", "the gradient that passes")
    neuron.legend(frameon=False, fontsize="small", loc="upper left")
    return figure


def _draw_network(axes: Axes) -> None:
    layers = [np.linspace(-1, 1, count) * (count - 1) / 4 for count in (3, 5, 5, 2)]
    for column, (here, there) in enumerate(pairwise(layers)):
        for y in here:
            for z in there:
                axes.plot([column, column + 1], [y, z], color=GREY, alpha=0.4, linewidth=0.8, zorder=1)
    x = torch.linspace(-3, 3, 101, dtype=torch.float64)
    for column, heights in enumerate(layers):
        hidden = column in (1, 2)
        edge = BLUE if hidden else GREY
        axes.scatter([column] * len(heights), heights, s=520, color="white", edgecolors=edge, zorder=2)
        for number, y in enumerate(heights if hidden else ()):
            value, _ = _value_and_slope(_layer(0.15 * number), x)
            axes.plot(column + x / 3 * 0.13, y + value / value.abs().max() * 0.14, color=BLUE, linewidth=1.2, zorder=3)
    axes.set_title("each hidden neuron has its own alpha", loc="left", fontsize="medium")
    axes.margins(0.12)
    axes.axis("off")


def _finish(axes: Axes, across: str, up: str, title: str = "") -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)


def overhead(panels: Sequence[Panel] = ()) -> Figure:
    """The table of added parameters, counted in the networks themselves, beside the paper's."""
    figure = Figure(figsize=(8, 1.6), layout="constrained")
    axes = figure.subplots()
    axes.axis("off")
    activation = Method.parse("adalin").activation
    build = partial(make_model, activation=activation)
    with torch.device("meta"):  # draws no random numbers
        mlp, cnn = build("mlp", (1, 28, 28), 10), build("cnn", (3, 32, 32), 100)
    rows = []
    for name, model, paper_count in (
        ("MLP", mlp, "210 of 89,610 (0.23 %), with the outputs"),
        ("CNN", cnn, "32 of 39,796 (0.08 %), without the hidden layer"),
    ):
        weights, alphas = (sum(p.numel() for p in group) for group in split_parameters(model))
        rows.append([name, f"{weights:,}", f"{alphas} ({alphas / weights:.2%})", paper_count])
    heads = ["network", "weights", "alphas", "in the paper"]
    table = axes.table(rows, colLabels=heads, loc="center", cellLoc="left", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.auto_set_column_width(range(4))
    table.scale(1, 1.6)
    return figure
