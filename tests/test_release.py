"""What a release needs beside the code: one version everywhere, workflows that are what they seem, no large files."""

import re
import subprocess
from pathlib import Path

import pytest

import adalin

ROOT = Path(__file__).parent.parent

LARGEST = 2_000_000
"""Bytes that a file of the repository may have, unless it holds results."""

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")


def test_the_citation_names_this_version():
    assert f"\nversion: {adalin.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_version_is_a_release():
    assert re.fullmatch(r"\d+\.\d+\.\d+", adalin.__version__)


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_files_for_github_are_yaml(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_workflows_call_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {
        name
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for name in re.findall(r"\bmake ([a-z-]+)", path.read_text())
    }
    assert called <= targets
    assert {"test", "demo", "sdist"} <= called


def test_no_file_but_results_is_large():
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in names.split("\0") if name and not name.startswith("results/")]
    assert [path.name for path in files if path.exists() and path.stat().st_size > LARGEST] == []
