"""Which engine trains a run is told, and nothing goes on with another one unnoticed."""

import json
from pathlib import Path

from adalin.runs import RunFolder
from notes import Notes
from tiny_runs import after_epochs, define, outcome, train


def test_the_manifest_names_the_engine(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin")
    train([one], tmp_path)
    assert RunFolder(tmp_path / one.folder).manifest()["engine"]["name"] in ("native", "module")


def test_an_unfinished_run_of_an_older_version_is_trained_anew(tmp_path: Path) -> None:
    one, notes = define("random-label-mnist", "adalin"), Notes()
    expected = train([one], tmp_path / "whole")[one]
    train([one], tmp_path / "old", **after_epochs(4))
    path = tmp_path / "old" / one.folder / "manifest.json"
    path.write_text(json.dumps({name: own for name, own in json.loads(path.read_text()).items() if name != "engine"}))
    assert train([one], tmp_path / "old", emit=notes)[one] == expected
    assert "is a run of an older version: it starts anew" in notes.messages("warning")[0]
    assert outcome(tmp_path / "old" / one.folder) == expected
    assert len(list((path.parent / "set-aside-1").glob("checkpoint-*"))) == 1


def test_a_run_that_another_engine_has_begun_goes_on_only_if_that_is_allowed(tmp_path: Path) -> None:
    one, notes = define("random-label-mnist", "adalin"), Notes()
    train([one], tmp_path, **after_epochs(4))
    path = tmp_path / one.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["engine"]["kernels"] = "sparc64 VIS"
    path.write_text(json.dumps(manifest))
    before = outcome(tmp_path / one.folder)
    assert train([one], tmp_path, emit=notes)[one] == before
    assert "--allow-engine-change" in notes.messages("error")[0]
    assert train([one], tmp_path, allow_engine_change=True)[one]["position"]["state"] == "done"
