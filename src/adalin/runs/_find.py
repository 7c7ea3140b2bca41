"""Folders below a folder that have a file of some name."""

import os
from pathlib import Path


def find_folders(root: Path, name: str) -> list[Path]:
    """All folders in and below a folder that have a file of that name, by path.

    Nothing is sought below them. Links to folders are followed, but nothing is found twice, and a loop has an end. What
    may not be read is left out.
    """
    found, walked, links = _walk(os.fspath(root), name, None)
    if links:
        # Folders first, so that their own paths win over those that links give them.
        seen = {_identity(folder) for folder in walked} | {None}
        for link in links:  # which grows
            more, _, others = _walk(link, name, seen)
            found += more
            links += others
    return [Path(path) for path in sorted(found, key=lambda path: path.split("/"))]


def _walk(place: str, name: str, seen: set[tuple[int, int] | None] | None) -> tuple[list[str], list[str], list[str]]:
    """Below a place, but for what was seen: the folders with the file, all folders, and the links."""
    found: list[str] = []
    walked: list[str] = []
    links: list[str] = []
    waiting = [place]
    while waiting:
        folder = waiting.pop()
        if seen is not None:
            if (identity := _identity(folder)) in seen:
                continue
            seen.add(identity)
        walked.append(folder)
        if os.path.lexists(f"{folder}/{name}"):
            found.append(folder)
            continue
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        links.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return found, walked, sorted(links)


def _identity(folder: str) -> tuple[int, int] | None:
    """What tells a folder from all others; None for what is none."""
    try:
        status = Path(folder).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
