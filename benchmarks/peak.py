"""The processor's peak: multiply-adds per second of one core, on numbers that never leave the registers."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from adalin import native

FLAGS = {"v4": "x86-64-v4", "v3": "x86-64-v3"}
ROUNDS = 300_000


@lru_cache
def multiply_adds_per_second() -> float | None:
    """None without a C++ compiler, or on processors that these flags do not know."""
    compiler, level = shutil.which("c++") or shutil.which("g++"), FLAGS.get(native.isa() or "")
    if compiler is None or level is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        library, source = Path(place) / "peak.so", Path(__file__).with_suffix(".cpp")
        flags = ["-O3", f"-march={level}", "-ffp-contract=fast", "-Wno-psabi", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
        multiply_add = ctypes.CDLL(str(library)).multiply_add
    multiply_add.restype, multiply_add.argtypes = ctypes.c_int64, [ctypes.c_int64, ctypes.c_float, ctypes.c_void_p]
    sink, fastest = ctypes.c_float(), 0.0
    for _ in range(30):
        start = time.process_time()
        made = multiply_add(ROUNDS, 1.0, ctypes.addressof(sink))
        fastest = max(fastest, made / (time.process_time() - start))
    return fastest
