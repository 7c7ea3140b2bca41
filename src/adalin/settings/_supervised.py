"""Runs on a stream of tasks."""

from dataclasses import dataclass

from adalin.settings._setting import Settings, setting

SCALINGS = ("unit", "kumar2023")
"""Ways in which pixels become inputs: [0, 1], or standardised as in Kumar et al. 2023."""
INITS = ("default", "he-normal")
"""First weights of a network: torch's default, or N(0, 2 / inputs) with biases of 0 (He et al. 2015)."""
PRECISIONS = ("float32", "bfloat16")
"""Precisions of matrix products; weights and their updates stay float32."""


@dataclass(frozen=True, kw_only=True)
class SupervisedSettings(Settings):
    """How a network is trained on a stream. What has no default here comes from the benchmark."""

    tasks: int = setting(least=1, most=1_000_000, defines=False, is_scale=True)
    """Number of tasks, one after the other; a finished run can be given more, and goes on."""
    epochs: int = setting(least=1, is_scale=True)
    """Epochs per task."""
    batch_size: int = setting(least=1)
    """Batch size: images per step."""
    lr: float = setting(positive=True)
    """Learning rate."""
    images: int = setting(least=1, is_scale=True)
    """Images per task."""
    inputs: str = setting("unit", choices=SCALINGS)
    """Scaling of pixels: unit ([0, 1]) or kumar2023 (standardised as in that paper)."""
    init: str = setting("default", choices=INITS)
    """First weights: default (torch's) or he-normal."""
    steps: int | None = setting(None, least=1, is_scale=True)
    """Gradient steps per task, in place of epochs."""
    clip: float | None = setting(None, positive=True)
    """Largest norm of a gradient; larger ones are scaled down to it."""
    model: str | None = setting(None, is_scale=True)
    """Network in place of the benchmark's, see `adalin list`."""
    preset: str = setting("plain")
    """Protocol of training, see `adalin list`."""
    precision: str = setting("float32", choices=PRECISIONS)
    """Precision of matrix products: float32 or bfloat16 (mixed, for networks trained by autograd)."""
    data: str | None = setting(None, is_option=False)
    """SHA-256 of the data set, so that a run on other data is another run."""

    @property
    def rows(self) -> int:
        return self.tasks
