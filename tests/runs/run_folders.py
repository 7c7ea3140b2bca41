"""Folders of runs that nobody trained."""

from pathlib import Path
from typing import Any

import torch

from adalin.runs import Checkpoint, RunFolder

CONFIG: dict[str, Any] = {"benchmark": "digits", "method": "l2", "lr": 0.01, "seed": 3, "data": None}
MANIFEST: dict[str, Any] = {
    "tasks": 4,
    "data": {"source": "MNIST", "sha256": "ab" * 32},
    "protocol": {"order": "shuffled anew in each epoch"},
    "versions": {"python": "3.11", "torch": "2.13.0"},
    "commit": None,
    "machine": {"cpu": "EPYC", "cores": 2, "threads": 1},
}


def trained(path: Path, tasks: int, **changes: Any) -> RunFolder:
    """A run after some tasks, with a checkpoint at its end."""
    folder = RunFolder(path)
    folder.create_or_check(CONFIG | changes, MANIFEST)
    for task in range(tasks):
        folder.append_row({"task": task, "online_accuracy": 0.5, "test_accuracy": None, "alpha": [[0.25, 0.75], None]})
    folder.save(Checkpoint({"weight": torch.arange(40_000.0)}, {"task": tasks, "step": 0}))
    return folder


def checkpoints(folder: RunFolder) -> list[Path]:
    return sorted(folder.path.glob("checkpoint-*"))


def rows_file(folder: RunFolder) -> Path:
    return folder.path / "rows.jsonl"
