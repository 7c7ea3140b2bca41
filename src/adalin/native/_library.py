"""Which native library is loaded, and what its functions take."""

import ctypes
import hashlib
import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
ISAS = ("v4", "v3", "base")  # the best first; v4 and v3 give the same bits
OF_TORCH = {"AVX512": "v4", "AVX2": "v3"}

_pointer, _integer = ctypes.c_void_p, ctypes.c_int64
Signatures = dict[str, list[Any]]

SIGNATURES: Signatures = {
    "adalin_forward": [_pointer] * 4 + [_integer] * 4,
    "adalin_backward": [_pointer] * 6 + [_integer] * 4,
    "adalin_points": [_pointer] * 5 + [_integer],
    "adalin_gate": [ctypes.c_int, _pointer, _pointer, _integer],
}
NETWORK_SIGNATURES: Signatures = {
    "adalin_plan": [_pointer] + [_integer] * 2,
    "adalin_network_forward": [_pointer] * 2 + [_integer] * 4 + [ctypes.c_int] * 2,
    "adalin_network_activate": [_pointer] + [_integer] * 2,
    "adalin_network_backward": [_pointer] * 2 + [_integer] * 2,
    "adalin_network_inputs_backward": [_pointer, _integer, _pointer],
    "adalin_network_loss": [_pointer] * 3 + [_integer] + [_pointer] * 2,
    "adalin_network_gradients": [_pointer] * 3 + [_integer] + [_pointer] * 2,
    "adalin_network_train": [_pointer] * 3 + [_integer] * 2 + [_pointer] * 4,
    "adalin_network_gram_start": [_pointer] * 3,
    "adalin_network_gram_weights": [_pointer] * 3,
    "adalin_pass": [_pointer] * 2 + [_integer],
    "adalin_perturb": [_pointer] * 2 + [_integer],
    "adalin_conv_forward": [_pointer] * 2 + [_integer] + [_pointer] * 7,
    "adalin_conv_backward": [_pointer] * 2 + [_integer] + [_pointer] * 10,
}
RETURN_INTEGERS = ("adalin_plan", "adalin_network_train")


@lru_cache
def library() -> ctypes.CDLL | None:
    """The library of this machine's instruction set, or None where none was built or `ADALIN_ISA` is `none`."""
    name = isa()
    return None if name is None else load(name)


@lru_cache
def isa() -> str | None:
    """The instruction set of the native kernels: `v4`, `v3`, `base`, or None without them."""
    runs_here = ISAS[ISAS.index(_best()) :]
    built = [name for name in runs_here if _file(name).exists()]
    wanted = os.environ.get("ADALIN_ISA", "")
    if wanted == "none":
        return None
    if not wanted:
        return built[0] if built else None
    if wanted not in ISAS:
        raise ValueError(f"ADALIN_ISA={wanted!r} is no instruction set: use one of {', '.join(ISAS)}, or none")
    if wanted not in runs_here:
        raise ValueError(f"ADALIN_ISA={wanted!r}: this processor runs {', '.join(runs_here)} only")
    if wanted not in built:
        raise ValueError(f"ADALIN_ISA={wanted!r}: that library was not built; run `make setup` with a C++ compiler")
    return wanted


def load(name: str) -> ctypes.CDLL:
    """The library for an instruction set, if it was built from the sources in this folder."""
    return load_file(_file(name), SIGNATURES | NETWORK_SIGNATURES)


def load_file(path: Path, signatures: Signatures) -> ctypes.CDLL:
    """A library with some of the functions, if it was built from the sources in this folder."""
    library = ctypes.CDLL(str(path))
    library.adalin_sources.restype = ctypes.c_char_p
    if library.adalin_sources().decode() != _hash_of_sources():
        raise ImportError(f"{path.name} was built from other sources than these: run `make setup`")
    for function, arguments in signatures.items():
        getattr(library, function).argtypes = arguments
    for function in RETURN_INTEGERS:
        getattr(library, function).restype = _integer
    return library


def describe() -> str:
    """One line: which kernels this machine uses, and what to do where these are slow ones."""
    name = isa()
    if name is not None:
        library()
        return f"native kernels ({platform.machine()}, {name})"
    if os.environ.get("ADALIN_ISA") == "none":
        return "pure Python: ADALIN_ISA=none"
    return (
        "pure Python: AdaLin layers take 2 to 5 times as long on the CPU as with native kernels, the laboratory's MLPs "
        "about 9 times; install g++ or clang, then adalin again"
    )


def _best() -> str:
    return OF_TORCH.get(torch.backends.cpu.get_cpu_capability(), "base")


def _file(name: str) -> Path:
    return FOLDER / f"adalin_{name}.so"


def _hash_of_sources() -> str:
    """What CMakeLists.txt computes: the hash of the files' hashes, in the order of their names."""
    files = sorted(path for path in FOLDER.iterdir() if path.suffix in (".cpp", ".h") or path.name == "CMakeLists.txt")
    hashes = "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    return hashlib.sha256(hashes.encode()).hexdigest()
