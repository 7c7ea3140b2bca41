"""What is installed from an archive or a source tree, in a new environment, with a compiler and without one."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree"),
    pytest.mark.timeout(1_800),
]

NEEDED = ("cmake", "ninja", "make")
"""What a build may find where compilers are hidden."""


def run(*command: str | Path, path: str | None = None, folder: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("CXX", "CC", "PYTHONPATH")}
    environment |= {"PATH": path or os.environ["PATH"], "ADALIN_ISA": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def python(tmp_path) -> Path:
    """That of a new environment, which has torch but not adalin."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    (packages,) = home.glob("lib/python*/site-packages")
    # Path files in a folder that one of them names are not read, so an editable adalin of there stays there.
    (packages / "torch.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    return home / "bin" / "python"


@pytest.fixture
def hidden(tmp_path) -> str:
    """A PATH without compilers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """The source archive."""
    folder = tmp_path_factory.mktemp("dist")
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "scikit-build-core>=1.0")
    name = run(python, "-c", f"from scikit_build_core.build import build_sdist; print(build_sdist({str(folder)!r}))")
    return folder / name.splitlines()[-1]


def kernels(python: Path, folder: Path) -> str:
    return run(python, "-m", "adalin.native", folder=folder)


def test_an_archive_brings_the_kernels(archive, python, tmp_path):
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", archive)
    assert kernels(python, tmp_path).startswith("native kernels (")
    version = run(python.with_name("adalin"), "--version", folder=tmp_path)
    assert ", native kernels (" in version


def test_an_archive_is_pure_python_without_a_compiler(archive, python, hidden, tmp_path):
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", archive, path=hidden)
    said = kernels(python, tmp_path)
    assert said.startswith("pure Python: AdaLin layers take 2 to 5 times as long")
    assert said.endswith("install g++ or clang, then adalin again")


@pytest.mark.skipif(not os.environ.get("ADALIN_SLOW"), reason="compiles for a minute: make test-slow")
def test_an_editable_install_without_a_compiler_drops_old_kernels(python, hidden, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".cache", "site", "results", "runs"))
    install = (python, "-m", "pip", "install", "--quiet", "--no-deps", "-e", tree)
    run(*install)
    assert kernels(python, tmp_path).startswith("native kernels (")
    run(*install, path=hidden)
    assert kernels(python, tmp_path).startswith("pure Python: ")
    assert not list(tree.rglob("*.so"))


def test_a_wheel_carries_the_kernels_and_their_sources_and_works_where_it_is_installed(python, tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("adalin-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"adalin/native/adalin_base.so", "adalin/native/layer.cpp", "adalin/native/vector.h"} <= set(names)
    assert "-py3-none-" in wheel.name
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    assert kernels(python, tmp_path).startswith("native kernels (")
    model = "nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))"
    program = f"from torch import nn; import adalin; print(adalin.convert({model}))"
    assert "3 alphas added to 13 parameters" in run(python, "-c", program, folder=tmp_path)
