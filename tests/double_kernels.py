"""The networks' kernels compiled for float64: what they compute differs from autograd by float64's rounding alone."""

import ctypes
import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from adalin.native import _library


@lru_cache
def double_kernels() -> ctypes.CDLL:
    """The library, built once for each state of the sources."""
    sanitizers = os.environ.get("ADALIN_SANITIZE", "")  # set by tests.native.sanitize
    state = f"{_library._hash_of_sources()[:16]}{'_sanitized' if sanitizers else ''}"
    built = Path(tempfile.gettempdir(), f"adalin_double_{state}.so")
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            configure = ["cmake", "-S", _library.FOLDER, "-B", folder, "-DADALIN_DOUBLE=ON", f"-DSANITIZE={sanitizers}"]
            build = ["cmake", "--build", folder, "--target", "double"]
            for command in (configure, build):
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            Path(folder, "adalin_double.so").replace(built)
    return _library.load_file(built, _library.NETWORK_SIGNATURES)
