"""Which library is loaded, and which are refused."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adalin import native
from adalin.native import _library

needs_kernels = pytest.mark.skipif(native.isa() is None, reason="no native kernels here")


def python(program, **environment):
    """A new process's output, or the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | environment, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


DESCRIBE = "from adalin import native; print(native.describe())"


def test_no_kernels_where_none_are_wanted():
    program = (
        "from adalin import AdaLin, native; import torch; AdaLin('tanh', 3)(torch.ones(2, 3)); print(native.isa())"
    )
    assert python(program, ADALIN_ISA="none") == "None"
    assert python(DESCRIBE, ADALIN_ISA="none") == "pure Python: ADALIN_ISA=none"


@needs_kernels
def test_an_instruction_set_can_be_forced():
    assert python(DESCRIBE, ADALIN_ISA="base").endswith(", base)")
    assert re.fullmatch(r"native kernels \(\w+, (v4|v3|base)\)", python(DESCRIBE, ADALIN_ISA=""))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("avx9", "ValueError: ADALIN_ISA='avx9' is no instruction set: use one of v4, v3, base, or none"),
        ("v4", "ValueError: ADALIN_ISA='v4': this processor runs base only"),
    ],
)
def test_a_wrong_instruction_set_gets_one_line(wanted, message):
    assert python("from adalin import AdaLin", ADALIN_ISA=wanted, ATEN_CPU_CAPABILITY="default") == message


@needs_kernels
def test_a_library_of_other_sources_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "native"
    shutil.copytree(_library.FOLDER, folder)
    monkeypatch.setattr(_library, "FOLDER", folder)
    name = native.isa()
    assert _library.load(name).adalin_lanes() in (4, 8, 16)
    (folder / "vector.h").write_text((folder / "vector.h").read_text() + "\n")
    with pytest.raises(
        ImportError, match=f"adalin_{name}.so was built from other sources than these: run `make setup`"
    ):
        _library.load(name)


def test_without_a_library_the_layer_is_pure_python(tmp_path):
    shutil.copytree(Path(_library.FOLDER).parent, tmp_path / "adalin", ignore=shutil.ignore_patterns("*.so"))
    printed = python(DESCRIBE, PYTHONPATH=str(tmp_path), ADALIN_ISA="")
    assert printed.startswith("pure Python: AdaLin layers take 2 to 5 times as long")
    assert printed.endswith("install g++ or clang, then adalin again")


def test_without_a_compiler_nothing_is_built_and_one_line_says_what_is_slower(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    (tmp_path / "native").mkdir()
    shutil.copy(_library.FOLDER / "CMakeLists.txt", tmp_path / "native")
    configure = ["cmake", "-S", tmp_path / "native", "-B", tmp_path / "build", "-DADALIN_COMPILE=OFF"]
    done = subprocess.run(configure, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = [line for line in done.stdout.splitlines() if "adalin" in line and "build" not in line.lower()]
    assert line.startswith(
        "-- adalin without native kernels, for want of a C++ compiler: AdaLin layers will take 2 to 5 times"
    )
    assert line.endswith("Install g++ or clang, then adalin again.")
