"""The kernels on other processors and by other compilers: built, warned of, run, and compared bit by bit."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from adalin.native import _library

pytestmark = [
    pytest.mark.skipif(not os.environ.get("ADALIN_SLOW"), reason="compiles for minutes: make test-slow"),
    pytest.mark.timeout(1_800),
]

FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Wno-psabi")
DRIVER = Path(__file__).with_name("portable.cpp")
FMA = {"v4": "avx512f", "v3": "avx2"}
"""Flags of the processors that run a library, in /proc/cpuinfo."""


@dataclass(frozen=True)
class Machine:
    """A compiler, and what runs its programs."""

    compiler: str
    run: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        return [name for name in (self.compiler, *self.run[:1]) if shutil.which(name) is None]


GCC = Machine("g++")
CLANG = Machine("clang++")
ARM = Machine("aarch64-linux-gnu-g++", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))


def built(machine: Machine, folder: Path) -> Path:
    """The folder with a machine's libraries and its `portable`; a warning fails."""
    if machine.missing:
        pytest.skip(f"not installed: {', '.join(machine.missing)}")
    commands = [
        ["cmake", "-S", _library.FOLDER, "-B", folder, f"-DCMAKE_CXX_COMPILER={machine.compiler}"],
        ["cmake", "--build", folder],
        [machine.compiler, *FLAGS, "-I", _library.FOLDER, DRIVER, "-ldl", "-o", folder / "portable"],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr + done.stdout
    return folder


def hashes(machine: Machine, folder: Path, isa: str) -> dict[str, str]:
    """What `portable` prints, by case, after it has compared all numbers with plain loops."""
    library = folder / f"adalin_{isa}.so"
    done = subprocess.run([*machine.run, folder / "portable", library], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def native_hashes(tmp_path_factory) -> dict[str, dict[str, str]]:
    """By instruction set, as g++ builds them."""
    folder = built(GCC, tmp_path_factory.mktemp("gcc"))
    flags = Path("/proc/cpuinfo").read_text().split()
    runs_here = ["base", *(isa for isa, flag in FMA.items() if flag in flags)]
    return {isa: hashes(GCC, folder, isa) for isa in runs_here}


def test_all_instruction_sets_agree_with_plain_loops_and_those_with_fma_to_the_bit(native_hashes):
    fused = [found for isa, found in native_hashes.items() if isa != "base"]
    assert all(found == fused[0] for found in fused)


def test_aarch64_computes_the_bits_of_avx2(native_hashes, tmp_path):
    found = hashes(ARM, built(ARM, tmp_path), "base")
    if "v3" not in native_hashes:
        pytest.skip("the values are right; this processor has no AVX2 to compare bits with")
    assert found == native_hashes["v3"]


def test_clang_builds_without_a_warning_and_its_kernels_agree_with_plain_loops(native_hashes, tmp_path):
    folder = built(CLANG, tmp_path)
    for isa in native_hashes:
        assert hashes(CLANG, folder, isa).keys() == native_hashes[isa].keys()
