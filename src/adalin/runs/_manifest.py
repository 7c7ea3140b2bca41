"""Where and with what a run was made."""

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from adalin import __version__, native

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def made_with(
    *, threads: int, device: Mapping[str, Any] = _NOTHING, versions: Mapping[str, str] = _NOTHING
) -> dict[str, Any]:
    """Software and machine."""
    return {
        "versions": {
            "python": platform.python_version(),
            "adalin": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            **versions,
        },
        "commit": _commit(),
        "machine": {
            "cpu": _cpu(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "kernels": native.isa() or "none",
            "cores": os.cpu_count(),
            "system": platform.system(),
            "threads": threads,
            **device,
        },
    }


@cache
def _commit() -> str | None:
    """Of the checkout that adalin is run from, with a "+" if it has been changed since; None for an installed one."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        if "src/adalin" not in git("ls-files", "--full-name", "."):
            return None
        return git("rev-parse", "HEAD").strip() + ("+" if git("status", "--porcelain", "--", "..").strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
