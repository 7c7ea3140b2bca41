"""The tables of README and docs/speed.md, made from what was measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
START, END = "<!-- measured: python -m benchmarks -->\n", "<!-- /measured -->\n"
SECTIONS = {
    "training": "Training",
    "around": "Around training",
    "sac": "SAC",
    "activations": "Layers",
    "imports": "Import",
    "monitor": "The monitor",
}
"""Headings by benchmark, in the page's order."""
SHORT = {
    ("AdaLin(relu) eager (256, 2048), 1 thread, fastest call", "x relu"): "AdaLin on ReLU, forward + backward",
    ("AdaLin(tanh) eager (256, 2048), 1 thread, fastest call", "x tanh"): "AdaLin on tanh, forward + backward",
    ("random-label MNIST, fastest epoch", "x plain loop"): "MLP with AdaLin on random-label MNIST, SGD",
    ("random-label MNIST, fastest epoch", "x JAX's best"): "the same",
    ("class-split CNN, fastest epoch", "x plain loop"): "CNN with AdaLin on class-split CIFAR-100, SGD",
    ("SAC's update, baseline, fastest", "x CleanRL's"): "SAC's update",
}
"""README's lines: a figure's name and unit, and what stands there."""
AGAINST = {
    "x relu": "of the time of `nn.ReLU`",
    "x tanh": "of the time of `nn.Tanh`",
    "x plain loop": "times the steps per second of a plain PyTorch loop",
    "x JAX's best": "times those of JAX (jit and scan; one run, vmap or lax.map over eight)",
    "x CleanRL's": "times the updates per second of CleanRL's",
}
Recorded = Mapping[str, Any]
"""What `latest.json` has: by benchmark, the machine and the results."""


def short_table(recorded: Recorded) -> str:
    """README's: what readers may want to know first."""
    found = {(own["name"], own["unit"]): own["value"] for section in recorded.values() for own in section["results"]}
    lines = ["| | | |", "|---|---|---|"]
    for key, what in SHORT.items():
        if found.get(key) is not None:
            lines.append(f"| {what} | {found[key]:g} | {AGAINST[key[1]]} |")
    return "\n".join(lines) + "\n"


def whole_table(recorded: Recorded) -> str:
    """Each figure with its bar, and where it was measured."""
    parts = [f"{section_table(name, recorded[name])}\n" for name in SECTIONS if name in recorded]
    missed = [own["name"] for section in recorded.values() for own in section["results"] if own["ok"] is False]
    kept = sum(own["ok"] is True for section in recorded.values() for own in section["results"])
    return f"{kept} of {kept + len(missed)} bars are met.\n\n" + "\n".join(parts)


def section_table(name: str, section: Recorded) -> str:
    """One benchmark's figures."""
    machine = section["machine"]
    load = f"load {machine['load_before']} to {machine['load_after']}"
    commit = f", commit {machine['commit'][:7]}" if machine.get("commit") else ""
    where = f"{machine['processor']}, {machine['cores']} cores, kernels {machine['kernels']}, {load}{commit}"
    lines = [f"### {SECTIONS[name]}", "", f"`{machine['command']}` on {where}.", ""]
    lines += ["| | measured | | bar | |", "|---|---|---|---|---|", *_lines(section["results"])]
    return "\n".join(lines) + "\n"


PAGES: dict[Path, Callable[[Recorded], str]] = {
    ROOT / "README.md": short_table,
    ROOT / "docs" / "speed.md": whole_table,
}


def page_with(text: str, table: str) -> str:
    """A page with this table."""
    before, rest = text.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{table}\n{END}{after}"


def _lines(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for result in results:
        value = result["skipped"] or "-" if result["value"] is None else f"{result['value']:g}"
        verdict = {True: "met", False: "**missed**", None: ""}[result["ok"]]
        yield f"| {result['name']} | {value} | {result['unit']} | {result['bar']} | {verdict} |"
