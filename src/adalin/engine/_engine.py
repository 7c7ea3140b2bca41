"""Which engine computes a network, and why."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from adalin import native
from adalin._hardware import Hardware
from adalin.engine._module_net import ModuleNet
from adalin.engine._native_net import NativeNet
from adalin.engine._net import Net
from adalin.engine._preset import PLAIN, Preset
from adalin.methods import Rule

CLASSES = {"v4": "FMA", "v3": "FMA", "base": "base"}
"""Kernels by their instruction set: those of a class give the same bits."""


@dataclass(frozen=True)
class Engine:
    """What computes a network."""

    name: str
    """Name: "native" or "module"."""
    reason: str = ""
    """Reason why it is not native."""

    def __str__(self) -> str:
        return "native kernels" if self.name == "native" else f"PyTorch's autograd ({self.reason})"

    @property
    def numbers(self) -> dict[str, str]:
        """What its numbers depend on to the bit, for a run's manifest: where this is equal, a run can go on."""
        isa = native.isa()
        kernels = "none" if isa is None else f"{platform.machine()} {CLASSES[isa]}"
        return {"name": self.name, "kernels": kernels}


def choose_engine(
    model: nn.Module, *, preset: Preset = PLAIN, precision: str = "float32", rules: Sequence[Rule] = ()
) -> Engine:
    """The engine that a network gets: the native one wherever it can."""
    if native.isa() is None:
        return Engine("module", "there are no native kernels for networks here")
    if preset.changes_batches:
        return Engine("module", f"preset {preset.name} changes images or outputs")
    if precision != "float32":
        return Engine("module", f"its precision is {precision}")
    for rule in rules:
        if "steps" in rule.needs:
            return Engine("module", f"{rule.name} sets the optimiser's steps of single parameters to 0")
    refusal = NativeNet.refusal(model)
    return Engine("module", refusal) if refusal else Engine("native")


def make_net(
    model: nn.Module,
    *,
    hardware: Hardware | None = None,
    seed: int = 0,
    preset: Preset = PLAIN,
    precision: str = "float32",
    rules: Sequence[Rule] = (),
) -> Net:
    """The network on its engine. Native ones stay on the CPU, where they are fastest."""
    if choose_engine(model, preset=preset, precision=precision, rules=rules).name == "native":
        return NativeNet(model)
    augmented, only_seen = preset.augmented, preset.only_seen
    return ModuleNet(model, hardware, seed=seed, precision=precision, augmented=augmented, only_seen=only_seen)
