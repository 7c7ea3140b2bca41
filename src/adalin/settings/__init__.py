"""What can be chosen of a run: one dataclass per kind of runs. Nothing heavy is imported here."""

from adalin.settings._sac import SACSettings
from adalin.settings._setting import Settings, setting, specifications
from adalin.settings._supervised import INITS, PRECISIONS, SCALINGS, SupervisedSettings

__all__ = [
    "INITS",
    "PRECISIONS",
    "SCALINGS",
    "SACSettings",
    "Settings",
    "SupervisedSettings",
    "setting",
    "specifications",
]
