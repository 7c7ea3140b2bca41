"""What the package promises as a whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import adalin

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", adalin.__all__)
def test_every_public_name_is_documented(name):
    assert (getattr(adalin, name).__doc__ or "").strip()


def test_importing_adalin_imports_no_other_library_than_torch_does():
    program = (
        "import sys, torch; before = {m.partition('.')[0] for m in sys.modules}; import adalin;"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} - before - set(sys.stdlib_module_names)))"
    )
    added = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert added == ["adalin"]


def test_the_demo_runs(tmp_path):
    picture = tmp_path / "picture.png"
    options = ["--tasks", "2", "--epochs", "1", "--images", "64", "--picture", str(picture)]
    command = [sys.executable, str(ROOT / "examples" / "random_labels.py"), *options]
    lines = subprocess.check_output(command, text=True).splitlines()
    assert "200 alphas added to 89,610 parameters (+0.22 %)" in lines
    rows = [line.split() for line in lines[-2:]]
    assert [row[0] for row in rows] == ["0", "1"]
    assert all(0 <= float(score) <= 1 for row in rows for score in row[1:])
    assert picture.stat().st_size > 1000


def test_the_recorded_benchmarks_have_their_fields():
    results = json.loads((ROOT / "benchmarks" / "latest.json").read_text())
    assert results
    for result in results:
        assert list(result) == ["name", "value", "unit", "bar", "ok"]
        assert isinstance(result["ok"], bool)
