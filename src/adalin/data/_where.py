"""The folder that data is looked for in."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pooch

from adalin.data._catalogue import CATALOGUE
from adalin.data._dataset import DataError
from adalin.data._digits import digits_path
from adalin.data._files import find

CACHE = "the user's cache"
BUNDLED = "bundled"
"""In the place of a folder: the 5,000 digits that come with the package."""


@dataclass(frozen=True)
class Location:
    """A data folder and what is in it."""

    folder: Path
    """The data folder."""
    chosen_by: str
    """Reason why it is this one, for people: the argument, $ADALIN_DATA or the user's cache."""
    found: Mapping[str, tuple[Path, ...]]
    """Files of each data set that is complete, unread."""

    def __str__(self) -> str:
        return f"{self.folder} ({self.chosen_by}): {', '.join(self.found) or 'no data sets'}"


def where(folder: str | Path | None = None) -> Location:
    """The folder that is used if `folder` is given, or if nothing is, and the data sets in it."""
    path, chosen_by = choose_folder(folder)
    if str(path) == BUNDLED:
        return Location(digits_path().parent, f"{BUNDLED}, {chosen_by}", {"5,000 digits of mnist": (digits_path(),)})
    found = {}
    for name, entry in CATALOGUE.listing().items():
        with suppress(DataError, OSError):  # incomplete or unreadable is not there
            files = find(entry.format.candidates(path))
            if files:
                found[name] = files
    return Location(path, chosen_by, found)


def choose_folder(folder: str | Path | None) -> tuple[Path, str]:
    """The folder given, else $ADALIN_DATA, else the user's cache; and which of these it is."""
    if folder is not None:
        if not isinstance(folder, str | Path):
            raise DataError(f"data must be a folder, or {BUNDLED!r}, not {folder!r}")
        return _expanded(folder), "as given"
    if os.environ.get("ADALIN_DATA"):
        return _expanded(os.environ["ADALIN_DATA"]), "$ADALIN_DATA"
    return Path(pooch.os_cache("adalin")), CACHE


def _expanded(folder: str | Path) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError:  # which pathlib raises
        raise DataError(f"there is no user whose home {folder} is in") from None
