"""Where looks and probes go while training: files, trackers, functions, the terminal."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adalin.monitor._journal import ProbeNote
from adalin.monitor._look import Look
from adalin.monitor._table import layer_table

Listener = Callable[[Look | ProbeNote], None]


def listeners_of(log: Any, live: bool) -> list[Listener]:
    """The functions that get every look and probe."""
    targets = [] if log is None else list(log) if isinstance(log, list | tuple) else [log]
    found = [_listener(target) for target in targets]
    return [*found, _print] if live else found


def scalars_of(note: Look | ProbeNote) -> dict[str, float]:
    """At most 12 numbers per network, by names such as "monitor/actor/dead"."""
    numbers = {"probe": note.result.ratio} if isinstance(note, ProbeNote) else note.scalars()
    prefix = f"monitor/{note.network}/" if note.network else "monitor/"
    return {prefix + name: value for name, value in numbers.items()}


def _listener(target: Any) -> Listener:
    if isinstance(target, str | Path):
        path = Path(target)
        if path.suffix not in (".csv", ".jsonl"):
            raise ValueError(f"log must end in .csv or .jsonl: {path}")
        if not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent} for {path.name}")
        return _CSV(path) if path.suffix == ".csv" else _JSONLines(path)
    if hasattr(target, "add_scalar"):
        return _tensorboard(target)
    if hasattr(target, "log"):
        return lambda note: target.log({**scalars_of(note), "monitor/step": note.step})
    if callable(target):
        return lambda note: target({"step": note.step, **scalars_of(note)})
    kind = type(target).__name__
    raise ValueError(f"log is a path, a SummaryWriter, a run of Weights & Biases or a function, not {kind}")


def _tensorboard(writer: Any) -> Listener:
    def listen(note: Look | ProbeNote) -> None:
        for name, value in scalars_of(note).items():
            writer.add_scalar(name, value, note.step)

    return listen


class _JSONLines:
    """One line per look and per probe, with everything that was seen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_text("", "utf-8")

    def __call__(self, note: Look | ProbeNote) -> None:
        if isinstance(note, Look):
            row = {"kind": "look", **note.as_dict()}
        else:
            row = {"kind": "probe", "network": note.network, "step": note.step, **note.result.as_dict()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


class _CSV:
    """One line per number: network, step, what, layer, name, value. So all looks fit one table."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(("network", "step", "kind", "of", "name", "value"))

    def __call__(self, note: Look | ProbeNote) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows((note.network, note.step, *row) for row in _numbers(note))


def _numbers(note: Look | ProbeNote) -> Sequence[tuple[str, str, str, float]]:
    if isinstance(note, ProbeNote):
        low, high = note.result.interval
        return [("probe", "", "ratio", note.result.ratio), ("probe", "", "low", low), ("probe", "", "high", high)]
    rows = [("overall", "", name, value) for name, value in note.overall.items()]
    for kind, groups in (("layer", note.layers), ("weight", note.weights)):
        for of, numbers in groups.items():
            rows += [(kind, of, name, value) for name, value in numbers.items()]
    return rows


def _print(note: Look | ProbeNote) -> None:
    """The table of each look; on a terminal it takes the last one's place."""
    if isinstance(note, ProbeNote):
        print(f"step {note.step:,}: probe: {note.result}", flush=True)
        return
    print(layer_table(note) + "\n", file=sys.stdout, flush=True)
