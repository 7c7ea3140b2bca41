"""Protocols of training, by name: settings that belong together, and what no setting can say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adalin._registry import Registry
from adalin.optim import SGD, Optimizer


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings that belong together; for networks that are trained by autograd."""

    name: str
    """Name for `--preset`."""
    summary: str
    """One line about it."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of a run, in the place of the benchmark's."""
    optimizer: Optimizer = SGD()  # noqa: RUF009, which is frozen
    """Optimiser of methods that name none."""
    drops: tuple[tuple[int, float], ...] = ()
    """Pairs (epoch, factor): from that epoch of each task on, the learning rate is that many times itself."""
    augmented: bool = False
    """Whether images are flipped, cropped and rotated at random."""
    best_validation: bool = False
    """Whether the network goes back, at a task's end, to its best epoch on the task's validation data."""
    only_seen: bool = False
    """Whether the softmax is over the classes in the task's training data only."""

    @property
    def is_plain(self) -> bool:
        """Whether this is what a run without a preset has."""
        return self == PLAIN

    @property
    def changes_batches(self) -> bool:
        """Whether it asks more of an engine than gradients: other images, other outputs, or a look at validation."""
        return self.augmented or self.only_seen or self.best_validation

    def lr_factor(self, epoch: int) -> float:
        """What the learning rate is multiplied with."""
        return next((factor for start, factor in reversed(self.drops) if epoch >= start), 1.0)


PLAIN = Preset(name="plain", summary="SGD, unless the method names another optimiser")
"""Nothing but steps."""

presets: Registry[Preset] = Registry("preset", {PLAIN.name: PLAIN}, plugins=False)
"""Every preset by name."""

presets.register(
    "dohare2024",
    Preset(
        name="dohare2024",
        summary="the class-incremental protocol of Dohare et al. 2024",
        settings={
            "epochs": 200,
            "lr": 0.1,
            "batch_size": 90,
            "images": 2_250,  # 450 of each class; the other 50 are for validation
            "inputs": "kumar2023",
            "init": "he-normal",
        },
        optimizer=SGD(momentum=0.9, weight_decay=5e-4),
        drops=((60, 0.2), (120, 0.04), (160, 0.008)),
        augmented=True,
        best_validation=True,
        only_seen=True,
    ),
)
