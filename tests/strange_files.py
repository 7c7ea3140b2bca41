"""What may be found where a file should be."""

import os
from pathlib import Path

KINDS = ("pipe", "folder", "endless", "loop", "gone", "huge")


def put(kind: str, path: Path) -> None:
    """Put it in the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to({"endless": Path("/dev/zero"), "loop": path, "gone": path.with_name("gone")}[kind])
