"""The tables of README and docs, made from what was measured."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
START, END = "<!-- measured: python -m benchmarks -->\n", "<!-- /measured -->\n"
SHOWN = ("training", "around", "sac", "imports")
"""Benchmarks with few enough figures for a page."""


def table(recorded: Mapping[str, Any]) -> str:
    """One line for each figure, with its bar; those that miss it are marked."""
    lines = ["| | measured | | bar |", "|---|---|---|---|"]
    machines = []
    for name in SHOWN:
        if name in recorded:
            lines += _lines(recorded[name]["results"])
            machine = recorded[name]["machine"]
            load = f"{machine['load_before']} to {machine['load_after']}"
            machines.append(f"`{name}` on {machine['processor']}, kernels {machine['kernels']}, load {load}")
    return "\n".join([*lines, "", f"Measured one after the other: {'; '.join(machines)}."]) + "\n"


def page_with(text: str, recorded: Mapping[str, Any]) -> str:
    """A page whose table is that of these results."""
    before, rest = text.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{table(recorded)}\n{END}{after}"


def _lines(results: list[Mapping[str, Any]]) -> Iterator[str]:
    for result in results:
        value = result["skipped"] or "-" if result["value"] is None else f"{result['value']:g}"
        missed = " (missed)" if result["ok"] is False else ""
        yield f"| {result['name']} | {value} | {result['unit']} | {result['bar']}{missed} |"
