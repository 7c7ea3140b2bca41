"""`adalin.run`: mistakes are told in one line, and neither the caller's settings nor a full disk change a run."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adalin import run
from adalin.runs import Checkpoint, RunFolder, RunFolderError, plain_disk_errors
from failing_disk import largest_file, no_space
from notes import Notes
from tiny_runs import outcome


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "baseline"}, "^methods are a list, not 'baseline'$"),
        ({"epoch": 3}, r"there is no setting 'epoch' \(did you mean 'epochs'\?\)"),
        ({"workers": 0}, "^workers must be a whole number of at least 1, not 0$"),
        ({"workers": 1.5}, "^workers must be a whole number of at least 1, not 1.5$"),
        ({"workers": None}, "^workers must be a whole number of at least 1, not None$"),
        ({"seeds": [0.5]}, "^seed must be a whole number of at least 0, not 0.5$"),
        ({"seeds": 3}, "^seeds are a list, not 3$"),
        pytest.param({"seeds": iter([3])}, "^seeds are a list, not <list_iterator", id="an iterator"),
        ({"methods": None}, "^methods are a list, not None$"),
        ({"methods": [5]}, r"^a method is a text such as 'adalin\+l2', not 5$"),
        ({"benchmark": None}, "^a benchmark is given by its name, not as None$"),
        ({"out": None}, "^out must be a folder, not None$"),
        ({"out": ""}, "^out must be a folder, not ''$"),
        ({"out": b"runs"}, "^out must be a folder, not b'runs'$"),
        ({"data": 5}, "^data must be a folder, or 'bundled', not 5$"),
        ({"hardware": "cuda"}, r"^hardware must be a Hardware, such as Hardware\('cuda'\), not 'cuda'$"),
        ({"lr": 1e-320}, r"^lr must be a number from 1.2e-38 to 3e\+38, not 1e-320$"),
        ({"tasks": 10**12}, "^tasks must be a whole number of at most 1,000,000, not 1000000000000$"),
    ],
    ids=str,
)
def test_mistakes_in_a_call_are_told_in_one_line(arguments, message, tmp_path):
    call = {"benchmark": "random-label-mnist", "methods": ["baseline"], "seeds": [3], "out": tmp_path / "out"}
    with pytest.raises((ValueError, TypeError), match=message):
        run(**call | {"tasks": 1, "epochs": 1, "images": 16} | arguments)
    assert not (tmp_path / "out").exists()


def test_neither_the_callers_dtype_nor_its_random_state_matters_or_moves(tmp_path):
    settings = {"tasks": 1, "epochs": 1, "images": 16}
    plain = run("random-label-mnist", ["adalin"], [3], out=tmp_path / "plain", **settings)
    torch.set_default_dtype(torch.float64)
    try:
        state = torch.get_rng_state()
        other = run("random-label-mnist", ["adalin"], np.array([3]), out=tmp_path / "other", **settings)
        assert torch.get_rng_state().equal(state)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert [one.rows for one in plain] == [one.rows for one in other]


def test_a_run_from_before_a_setting_was_added_goes_on(tmp_path):
    settings = {"epochs": 1, "images": 16}
    (short,) = run("random-label-mnist", ["adalin"], [3], out=tmp_path, tasks=1, **settings)
    folder = RunFolder(tmp_path / short.run.folder)
    path, checkpoint = folder.path / "config.json", folder.load(pytest.fail)
    assert checkpoint is not None
    config = json.loads(path.read_text())
    for name in ("steps", "clip", "model", "preset", "precision", "inputs"):
        del config[name]
    path.write_text(json.dumps(config))
    with folder.lock():
        folder.save(checkpoint)  # which names the run as it was then
    (long,) = run("random-label-mnist", ["adalin"], [3], out=tmp_path, tasks=2, **settings)
    assert (long.state, long.rows[0]) == ("done", short.rows[0])
    config["inputs"] = "kumar2023"
    path.write_text(json.dumps(config))
    with pytest.raises(RunFolderError, match='holds a run with inputs = "kumar2023", not "unit"'):
        run("random-label-mnist", ["adalin"], [3], out=tmp_path, tasks=3, **settings)


# full disks


@pytest.mark.parametrize("limit", [1_000, 100_000])
def test_a_full_disk_costs_the_way_from_the_last_checkpoint(limit: int, tmp_path: Path) -> None:
    """A row does not fit into 1,000 bytes, a checkpoint not into 100,000."""
    settings: dict[str, Any] = {"out": tmp_path / "out", "images": 40, "epochs": 2, "tasks": 3}
    (whole,) = run("random-label-mnist", ["adalin"], [0], **settings | {"out": tmp_path / "whole"})
    (short,) = run("random-label-mnist", ["adalin"], [0], **settings | {"tasks": 1})
    folder = tmp_path / "out" / short.run.folder
    saved = outcome(folder)
    with largest_file(limit), pytest.raises(RunFolderError) as error:
        run("random-label-mnist", ["adalin"], [0], **settings)
    error.match(r"^cannot write to [^\n]*; make room or permit writing there, then start the same command again$")
    left = outcome(folder)
    assert left["position"] == saved["position"]
    assert left["row 0"] == saved["row 0"]
    run("random-label-mnist", ["adalin"], [0], **settings)
    assert outcome(folder) == outcome(tmp_path / "whole" / whole.run.folder)


def test_what_cannot_be_written_ends_its_own_run_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"images": 40, "epochs": 2, "tasks": 2}
    save, notes = RunFolder.save, Notes()

    def fail_for_one(folder: RunFolder, checkpoint: Checkpoint) -> Path:
        if "shrink-perturb" in str(folder.path) and folder.path.name == "seed-1":
            with plain_disk_errors(folder.path):
                no_space()
        return save(folder, checkpoint)

    methods, seeds = ["shrink-perturb", "adalin"], [0, 1]
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", fail_for_one)
        with pytest.raises(RunFolderError, match="No space left on device"):
            run("random-label-mnist", methods, seeds, out=tmp_path / "out", emit=notes, **settings)
    errors = [(one.method, one.seed) for one in notes.runs("error")]
    assert errors == [("shrink-perturb", 1)]
    results = run("random-label-mnist", methods, seeds, out=tmp_path / "out", **settings)
    expected = run("random-label-mnist", methods, seeds, out=tmp_path / "whole", **settings)
    for result, other in zip(results, expected, strict=True):
        assert outcome(tmp_path / "out" / result.run.folder) == outcome(tmp_path / "whole" / other.run.folder)
