"""What the package promises as a whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks._tables import PAGES, SHORT, page_with, short_table

import adalin

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", adalin.__all__)
def test_every_public_name_is_documented(name):
    assert (getattr(adalin, name).__doc__ or "").strip()


def test_importing_adalin_imports_no_other_library_than_torch_does():
    program = (
        "import sys, torch; before = {m.partition('.')[0] for m in sys.modules}; from adalin import AdaLin;"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} - before - set(sys.stdlib_module_names)))"
    )
    added = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert added == ["adalin"]


def test_help_does_not_wait_for_torch():
    program = "import sys; from adalin import cli; assert 'torch' not in sys.modules; assert 'tyro' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_recorded_benchmarks_have_their_fields():
    recorded = json.loads((ROOT / "benchmarks" / "latest.json").read_text())
    assert recorded
    for benchmark in recorded.values():
        assert {"processor", "cores", "kernels", "torch", "load_before", "load_after"} <= benchmark["machine"].keys()
        assert benchmark["results"]
        for result in benchmark["results"]:
            assert list(result) == ["name", "value", "unit", "bar", "ok", "skipped"]
            assert isinstance(result["value"], float) != bool(result["skipped"])
            assert isinstance(result["ok"], bool) == (bool(result["bar"]) and not result["skipped"])


def test_the_tables_of_readme_and_docs_are_those_of_the_recorded_benchmarks():
    recorded = json.loads((ROOT / "benchmarks" / "latest.json").read_text())
    for page, table in PAGES.items():
        assert page.read_text() == page_with(page.read_text(), table(recorded))


def test_readme_has_six_lines_of_speed_at_most():
    results = [{"name": name, "value": 2.0, "unit": unit, "ok": True} for name, unit in SHORT]
    assert short_table({"all": {"results": results}}).count("\n") - 2 == len(SHORT) <= 6
