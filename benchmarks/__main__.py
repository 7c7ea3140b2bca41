"""Run benchmarks, print the table, write `benchmarks/latest.json`: `python -m benchmarks --only sac training`."""

import argparse
import dataclasses
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from adalin import native
from adalin.runs import made_with
from benchmarks._tables import PAGES, page_with

BENCHMARKS = ("activations", "imports", "training", "remedies", "around", "sac", "monitor")
LATEST = Path(__file__).with_name("latest.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS, metavar="NAME")
    chosen: list[str] = parser.parse_args().only
    print(f"torch {torch.__version__}, {native.describe()}, {_processor()}, one thread, side by side\n")
    recorded: dict[str, Any] = json.loads(LATEST.read_text()) if LATEST.exists() else {}
    for name in chosen:
        print(name)
        results, before = [], os.getloadavg()[0]
        for result in importlib.import_module(f"benchmarks.{name}").measure():
            print(f"  {result}", flush=True)
            results.append(dataclasses.asdict(result))
        recorded[name] = {"machine": _machine(before), "results": results}
        LATEST.write_text(json.dumps(recorded, indent=2) + "\n")
    for page, table in PAGES.items():
        page.write_text(page_with(page.read_text(), table(recorded)))
    results = [own for name in chosen for own in recorded[name]["results"] if own["ok"] is not None]
    missed = [f"  missed: {own['name']} ({own['unit']})" for own in results if not own["ok"]]
    print("\n".join([f"\n{len(results) - len(missed)} of {len(results)} bars met", *missed]))
    print(f"written to {LATEST.parent.name}/{LATEST.name}, README.md and docs/speed.md")


def _machine(load_before: float) -> dict[str, Any]:
    """Where it was measured, and how busy that was."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "kernels": native.isa() or "none",
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "commit": made_with(threads=1)["commit"],
        "python": platform.python_version(),
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "command": f"python -m benchmarks {' '.join(sys.argv[1:])}".strip(),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
