"""Where and with what a run was made, and every choice that the paper leaves open."""

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from adalin import __version__
from adalin.data import Dataset
from adalin.training._hardware import Hardware
from adalin.training._preset import Preset, get_preset
from adalin.training._run import Run
from adalin.training._train import PROBE_IMAGES

PROTOCOL = {
    "online accuracy": "of each batch before its update, mean over the task's batches",
    "optimiser": "SGD without momentum; alpha is trained by it too, and never decayed",
    "alpha": "hidden layers, U(0, 1) at first",
    "order": "shuffled anew in each epoch, nothing dropped",
    "random labels": "uniform, not a permutation of the true ones",
    "permuted pixels": "one fixed subset of the images, every task permuted, the first too",
    "shuffled labels": "one fixed class-balanced subset",
    "class-split outputs": "all classes in one softmax, no mask",
    "gelu": "L = 1.128904..., the exact supremum (the paper: 1.12)",
    "sign entropy": "bits, of P(pre-activation > 0) per neuron, mean over neurons",
    "srank": "singular values of the last hidden layer's features up to 99 % of their sum",
    "metrics": f"on at most {PROBE_IMAGES} images of the task's training data, evenly spaced",
    "test accuracy": "on all test images of the task",
}


def manifest(run: Run, dataset: Dataset | None, hardware: Hardware, *, threads: int) -> dict[str, Any]:
    return {
        "tasks": run.tasks,
        "data": None if dataset is None else {"source": dataset.source, "sha256": dataset.sha256},
        "protocol": PROTOCOL if run.preset == "plain" else PROTOCOL | _preset_protocol(get_preset(run.preset)),
        **made_with(threads=threads, device=_device(hardware)),
    }


_NOTHING: Mapping[str, Any] = MappingProxyType({})


def made_with(
    *, threads: int, device: Mapping[str, Any] = _NOTHING, versions: Mapping[str, str] = _NOTHING
) -> dict[str, Any]:
    """Software and machine."""
    return {
        "versions": {
            "python": platform.python_version(),
            "adalin": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            **versions,
        },
        "commit": _commit(),
        "machine": {
            "cpu": _cpu(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "threads": threads,
            **device,
        },
    }


def _preset_protocol(preset: Preset) -> dict[str, str]:
    """In place of what a preset does not leave as it is."""
    drops = ", ".join(f"{factor:g} times from epoch {epoch} of a task" for epoch, factor in preset.drops)
    return {
        "optimiser": f"SGD, momentum {preset.momentum:g}, weight decay {preset.weight_decay:g} but not of alpha",
        "learning rate": drops or "constant",
        "augmentation": "flip, crop and rotation at random" if preset.augmented else "none",
        "weights at a task's end": "best on validation data" if preset.best_validation else "last",
        "outputs": "softmax over the classes seen so far" if preset.only_seen else "softmax over all classes",
    }


def _device(hardware: Hardware) -> dict[str, Any]:
    """Nothing for what is ordinary, so that manifests of older runs do not differ."""
    if hardware == Hardware():
        return {}
    name = torch.cuda.get_device_name(hardware.device) if hardware.device.startswith("cuda") else hardware.device
    return {"device": name, "compile": hardware.compile}


@cache
def _commit() -> str | None:
    """Of the checkout that adalin is run from, with a "+" if it has been changed since; None for an installed one."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        if "src/adalin" not in git("ls-files", "--full-name", "."):
            return None
        return git("rev-parse", "HEAD").strip() + ("+" if git("status", "--porcelain", "--", "..").strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
