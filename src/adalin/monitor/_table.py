"""Looks as rows and as a table for the terminal."""

from collections.abc import Sequence
from typing import Any

from adalin.monitor._look import Look

COLUMNS = (
    ("dead", "dead"),
    ("saturated", "saturated"),
    ("linear", "always linear"),
    ("dormant", "dormant"),
    ("gradient_dormant", "no gradient"),
    ("duplicate", "duplicates"),
)
"""Shares of units that the table shows, and what people call them."""


def layer_rows(look: Look) -> list[dict[str, Any]]:
    """One row per layer, for a data frame."""
    return [
        {"network": look.network, "step": look.step, "layer": name, "activation": look.bases.get(name, ""), **numbers}
        for name, numbers in look.layers.items()
    ]


def layer_table(look: Look, first: Look | None = None) -> str:
    """The layers of one look; ranks beside the first look's."""
    title = f"{look.network + ', ' if look.network else ''}step {look.step:,}"
    rows = [["layer", "activation", "units", *(text for _, text in COLUMNS), "effective rank"]]
    for name, numbers in look.layers.items():
        shares = [f"{numbers[key]:.0%}" if key in numbers else "-" for key, _ in COLUMNS]
        rank = f"{numbers['rank']:.1f}" if "rank" in numbers else "-"
        before = {} if first is None else first.layers.get(name, {})
        if "rank" in before and first is not look:
            rank += f" ({before['rank']:.1f} at first)"
        rows.append([name, look.bases.get(name, ""), f"{numbers['units']:.0f}", *shares, rank])
    lines = [title, *_aligned(rows)] if look.layers else [title, "no hidden activation was seen"]
    named = {"norm": "norm of the weights", "drift": "drift", "step": "effective step", "gradient": "gradient norm"}
    named["reliability"] = "reliability of a gradient"
    facts = [f"{text} {look.overall[key]:.3g}" for key, text in named.items() if key in look.overall]
    return "\n".join([*lines, ", ".join(facts)] if facts else lines)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
