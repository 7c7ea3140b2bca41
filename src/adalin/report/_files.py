"""Files that people name: written beside and renamed, so that an older one stays whole until the new one is."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def check_parent(path: Path) -> Path:
    """The path of a file to be; raises ValueError if its folder is not there, which is mostly a slip of the pen."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for {path.name}; make it first, or choose another")
    return path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """An empty file to write to, which takes the place of `path` at the end; after an error nothing has changed."""
    target = path.resolve()  # a link stays one
    unfinished = target.with_name(f".adalin-{uuid.uuid4().hex}.tmp")
    try:
        # Made by us: a link that somebody has put there would be written through.
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, unfinished)
        unfinished.replace(target)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
