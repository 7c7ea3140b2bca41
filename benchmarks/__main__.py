"""Run every benchmark, print the table, write `benchmarks/latest.json`."""

import dataclasses
import json
import platform
from pathlib import Path

import torch

from benchmarks import activations, imports, sac, training

BENCHMARKS = (activations, imports, training, sac)


def main() -> None:
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, one thread, side by side\n")
    results = []
    for benchmark in BENCHMARKS:
        for result in benchmark.measure():
            verdict = "ok" if result.ok else "MISSED"
            print(f"{result.name:58} {result.value:8.3g} {result.unit:12} bar {result.bar:8} {verdict}", flush=True)
            results.append(dataclasses.asdict(result))
    path = Path(__file__).with_name("latest.json")
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {path.parent.name}/{path.name}")


if __name__ == "__main__":
    main()
