"""What a conversion did, to read and to print."""

import re
from dataclasses import dataclass

from torch import nn

FOLDED_FROM = 4
"""So many equal lines of a report become one."""


@dataclass(frozen=True)
class ConvertedSite:
    """One AdaLin layer that `convert` put in place of an activation."""

    name: str
    """Path of the layer in the model."""
    base: str
    """Activation that AdaLin is built on."""
    width: int | None
    """Number of neurons; None if the first forward decides it."""
    alphas: int | None
    """Number of alphas, its own or shared with the whole network; None as for width."""
    dim: int | None
    """Axis of the neurons; None as for width."""
    way: str = "module"
    """Kind of the change: a "module" in place of another, a "call" in the source, or one "redirected" while it runs."""


@dataclass(frozen=True)
class Conversion:
    """A converted model and what was done to it. Printing it gives a table."""

    model: nn.Module
    """The converted model."""
    sites: tuple[ConvertedSite, ...]
    """Layers that were put in, in the order of the model."""
    skipped: tuple[tuple[str, str], ...]
    """Name and reason of every activation that was left alone."""
    added: int
    """Alphas added, without those of sites whose width is not known yet."""
    parameters: int
    """Number of the model's parameters before."""
    notes: tuple[str, ...] = ()
    """Findings of a run on an example, or what is not verified without one."""

    @property
    def overhead(self) -> float:
        """Alphas added, in percent of the parameters before."""
        return 100 * self.added / self.parameters if self.parameters else 0.0

    def __str__(self) -> str:
        if not self.sites:
            return "nothing new to convert"
        rows: list[tuple[str, ...]] = [("site", "base", "width", "alphas", "axis")]
        entries = [
            (s.name, (s.base, *("?" if v is None else str(v) for v in (s.width, s.alphas, s.dim)))) for s in self.sites
        ]
        rows += [(name, *values) for name, values in _folded(entries)]
        lengths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(n) if i >= 2 else cell.ljust(n) for i, (cell, n) in enumerate(zip(row, lengths, strict=True))
            )
            for row in rows
        ]
        lines.append(f"{self.added:,} alphas added to {self.parameters:,} parameters (+{self.overhead:.2f} %)")
        redirected: list[tuple[str, tuple[str, ...]]] = [(s.name, ()) for s in self.sites if s.way == "redirected"]
        if redirected:
            lines.append("redirected while it runs: " + ", ".join(name for name, _ in _folded(redirected)))
        lines += [f"left alone: {name} ({reason[0]})" for name, reason in _folded([(n, (r,)) for n, r in self.skipped])]
        return "\n".join([*lines, *self.notes])


def _folded(entries: list[tuple[str, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    """Four or more entries that differ in numbers of their names only become one."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, values in entries:
        groups.setdefault((re.sub(r"\d+", "*", name), values), []).append(name)
    found: list[tuple[str, tuple[str, ...]]] = []
    for (pattern, values), names in groups.items():
        if len(names) >= FOLDED_FROM:
            found.append((f"{len(names)} x {pattern}", values))
        else:
            found += [(name, values) for name in names]
    return found
