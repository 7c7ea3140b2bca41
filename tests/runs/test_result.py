"""What has come of runs, read from their folders."""

import json
from pathlib import Path

import pytest

import adalin.executors  # noqa: F401, so that the kinds of runs are there
from adalin.runs import Result, RunFolder, RunFolderError, find_results, kind_of

MANIFEST = {"tasks": 2, "data": {"source": "MNIST", "sha256": "ab" * 32}}


def made(out: Path, seed: int) -> RunFolder:
    run = kind_of("random-label-mnist").example("random-label-mnist", "adalin", seed, tasks=2)
    folder = RunFolder(out / run.folder)
    folder.create_or_check(dict(run.config), MANIFEST)
    return folder


def test_a_manifest_that_does_not_say_what_a_run_was_trained_on_does_not_hide_the_other_runs(tmp_path: Path) -> None:
    bad, _ = made(tmp_path, 3), made(tmp_path, 4)
    (bad.path / "manifest.json").write_text(json.dumps({"tasks": 2}))
    results, problems = find_results(tmp_path)
    assert [(result.run.seed, result.source) for result in results] == [(4, "MNIST")]
    assert problems == [f"{bad.path}/manifest.json is damaged: it does not say what the run was trained on"]
    with pytest.raises(RunFolderError, match="does not say what the run was trained on"):
        Result.open(bad, results[0].run)
