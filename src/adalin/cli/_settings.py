"""Settings of runs as options, made from the fields of the settings."""

from adalin.cli._options import make_options
from adalin.settings import SACSettings, SupervisedSettings

COMMON = ("tasks", "epochs", "steps", "images", "batch_size", "lr")
"""The settings that `--help` shows; the others of a stream are in a group, so that a new one is there by itself."""
GRID = ("batch_size", "lr")
"""The settings that a sweep chooses."""
OTHERS = [name for name in SupervisedSettings.options() if name not in COMMON]
OF_SAC = [name for name in SACSettings.options() if name not in SupervisedSettings.options()]


class StreamOptions(make_options(SupervisedSettings, COMMON, also=SACSettings)):  # type: ignore[misc]
    """Settings of the runs; what is left out is the benchmark's own."""


class SweepOptions(make_options(SupervisedSettings, [name for name in COMMON if name not in GRID])):  # type: ignore[misc]
    """Settings of the runs; what is left out is the benchmark's own."""


class NetworkOptions(make_options(SupervisedSettings, OTHERS)):  # type: ignore[misc]
    """The network and how it is trained; what is left out is the benchmark's own."""


class SACOptions(make_options(SACSettings, OF_SAC, shows_defaults=True)):  # type: ignore[misc]
    """Settings of runs of sac, by default CleanRL's; its --steps are those in the environment."""
