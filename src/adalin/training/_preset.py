"""Ways to train beyond plain SGD, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from adalin.nn._bases import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings that belong together; for networks that are trained by autograd."""

    name: str
    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Of a run, in the place of the benchmark's."""
    momentum: float = 0.0
    weight_decay: float = 0.0
    """Of weights and biases, in the gradient; alphas are left alone."""
    drops: tuple[tuple[int, float], ...] = ()
    """(epoch, factor): from there on in each task the learning rate is that many times itself."""
    augmented: bool = False
    """Images are flipped, cropped and rotated at random."""
    best_validation: bool = False
    """At the end of a task the network goes back to the epoch that was best on the task's validation data."""
    only_seen: bool = False
    """The softmax is over the classes in the task's training data."""

    @property
    def is_plain(self) -> bool:
        """Whether this is SGD and nothing else."""
        return self == PRESETS["plain"]

    def lr_factor(self, epoch: int) -> float:
        """What the learning rate is multiplied with."""
        return next((factor for start, factor in reversed(self.drops) if epoch >= start), 1.0)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Preset(name="plain", summary="SGD"),
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
                momentum=0.9,
                weight_decay=5e-4,
                drops=((60, 0.2), (120, 0.04), (160, 0.008)),
                augmented=True,
                best_validation=True,
                only_seen=True,
            ),
        )
    }
)
"""By name."""


def get_preset(name: str) -> Preset:
    """A preset by its name."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
