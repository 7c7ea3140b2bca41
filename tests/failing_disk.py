"""Disks that refuse: full, read-only."""

import errno
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Every write beyond this many bytes of a file fails in the kernel, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))  # Python ignores SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def tmpfs(size: str) -> Iterator[Path]:
    """A real disk that is really small."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("mounting a tmpfs needs root on Linux")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextmanager
def folder_to_protect() -> Iterator[tuple[Path, AbstractContextManager[None]]]:
    """A folder, and a context in which it is read-only."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own are hidden from nobody
        yield Path(name), _read_only(Path(name))


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Root may write everywhere, and so becomes nobody for the while."""
    is_root = os.geteuid() == 0
    folder.chmod(0o555)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


def no_space(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
