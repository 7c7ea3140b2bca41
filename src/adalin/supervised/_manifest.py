"""Where and with what a run on a stream was made, and every choice that the paper leaves open."""

from typing import Any

import torch

from adalin._hardware import Hardware
from adalin.data import Dataset
from adalin.engine import Engine, Preset, presets
from adalin.optim import SGD, Optimizer
from adalin.runs import made_with
from adalin.supervised._build import StreamRun, optimizer_of
from adalin.supervised._loop import METRIC_IMAGES

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
    "metrics": f"on at most {METRIC_IMAGES} images of the task's training data, evenly spaced",
    "test accuracy": "on all test images of the task",
}
"""Every choice that the paper leaves open, and what is done here; it becomes part of each run's manifest."""


def manifest(
    run: StreamRun, dataset: Dataset | None, hardware: Hardware, engine: Engine, *, threads: int
) -> dict[str, Any]:
    """The manifest of a run that begins now."""
    preset, optimizer = presets.get(run.settings.preset), optimizer_of(run)
    protocol = PROTOCOL | ({} if preset.is_plain else _preset_protocol(preset))
    if optimizer != SGD():
        protocol["optimiser"] = _optimizer_protocol(optimizer)
    return {
        "tasks": run.tasks,
        "data": None if dataset is None else {"source": dataset.source, "sha256": dataset.sha256},
        "engine": engine.numbers,
        "protocol": protocol,
        **made_with(threads=threads, device=_device(hardware)),
    }


def _optimizer_protocol(optimizer: Optimizer) -> str:
    options = [f"{name} {value}" for name, value in vars(optimizer).items() if name != "lr"]
    return f"{optimizer.name}: {', '.join(options)}; alphas and norms are not decayed"


def _preset_protocol(preset: Preset) -> dict[str, str]:
    """In place of what a preset does not leave as it is."""
    drops = ", ".join(f"{factor:g} times from epoch {epoch} of a task" for epoch, factor in preset.drops)
    return {
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
