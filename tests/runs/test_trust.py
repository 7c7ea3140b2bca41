"""A checkpoint goes with its own run and with the rows that were there when it was written, and with nothing else."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from adalin.runs import Checkpoint, CheckpointError, RunFolder, RunFolderError
from runs.run_folders import CONFIG, MANIFEST, checkpoints, rows_file, trained

Damage = Callable[[RunFolder], None]


def readings(folder: RunFolder) -> list[Callable[[], object]]:
    """Those that say what is wrong: of who trains, and of who looks."""
    return [lambda: folder.load(pytest.fail), lambda: folder.snapshot(pytest.fail)]


def assert_refused(folder: RunFolder, message: str, error_class: type[RunFolderError] = RunFolderError) -> None:
    """In one line, whoever reads; and nothing is changed by that."""
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    for read in readings(folder):
        with pytest.raises(error_class, match=message) as error:
            read()
        assert str(error.value).isprintable()
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_a_checkpoint_comes_back_with_its_pieces(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    piece = f"replay-0000000000-0000000010-{'a' * 64}.safetensors"
    folder.save(Checkpoint({"weight": torch.ones(2)}, {"task": 2, "step": 1}, (piece,)))
    loaded = folder.load(pytest.fail)
    assert loaded is not None
    assert loaded.pieces == (piece,)
    assert loaded.position == {"task": 2, "step": 1}


def test_a_snapshot_says_all_but_the_tensors(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    folder.append_row({"task": 2, "loss": 0.5})  # which the checkpoint does not know yet
    folder.add_cost(1.5)
    snapshot = folder.snapshot(pytest.fail)
    assert snapshot.config == CONFIG
    assert snapshot.manifest == MANIFEST
    assert snapshot.position == {"task": 2, "step": 0}
    assert snapshot.rows == folder.rows()
    assert len(snapshot.rows) == 3
    assert snapshot.core_seconds == 1.5


def test_a_snapshot_does_not_read_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trained(tmp_path, tasks=2)
    monkeypatch.setattr(safetensors.torch, "load", pytest.fail)
    read, sizes = os.read, []
    monkeypatch.setattr(os, "read", lambda descriptor, count: sizes.append(count) or read(descriptor, count))
    folder.snapshot(pytest.fail)
    assert sum(sizes) < checkpoints(folder)[-1].stat().st_size / 4


def test_a_run_without_checkpoint_has_no_position(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=0)
    checkpoints(folder)[0].unlink()
    folder.append_row({"task": 0})
    snapshot = folder.snapshot(pytest.fail)
    assert snapshot.position is None
    assert folder.peek() is None
    assert len(snapshot.rows) == 1


# of another run


@pytest.mark.parametrize("change", [{"seed": 4}, {"method": "baseline"}, {"lr": 0.5}], ids=str)
@pytest.mark.parametrize("beside", [True, False])
def test_a_checkpoint_of_another_run_is_refused(change: dict[str, Any], beside: bool, tmp_path: Path) -> None:
    folder, other = trained(tmp_path / "a", tasks=2), trained(tmp_path / "b", tasks=2, **change)
    assert rows_file(folder).read_bytes() == rows_file(other).read_bytes(), "nothing but the checkpoint gives it away"
    for _ in range(2):
        other.save(Checkpoint({"weight": torch.ones(2)}, {"task": 2, "step": 0}))
    if not beside:
        for path in checkpoints(folder):
            path.unlink()
    for path in checkpoints(other):
        shutil.copy(path, folder.path)
    newest = checkpoints(folder)[-1]
    assert_refused(
        folder, f"^checkpoint {newest} is that of another run, or config.json was changed; put", CheckpointError
    )
    assert folder.peek() is None
    assert not folder.has_network


def test_a_config_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    config = json.loads((folder.path / "config.json").read_text())
    (folder.path / "config.json").write_text(json.dumps(config | {"seed": 5}))
    assert_refused(folder, "is that of another run, or config.json was changed")


def test_a_config_that_is_written_differently_is_the_same(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    config = json.loads((folder.path / "config.json").read_text())
    (folder.path / "config.json").write_text(json.dumps(dict(reversed(config.items()))))
    for read in readings(folder):
        assert read() is not None


def test_checkpoints_without_a_config_are_those_of_nobody(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    (folder.path / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has checkpoints but no config\.json; restore it or delete the folder"):
        folder.load(pytest.fail)
    folder.create_or_check(CONFIG, MANIFEST)
    assert folder.load(pytest.fail) is not None


def test_a_checkpoint_of_an_older_version_says_so(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    (path,) = checkpoints(folder)
    data = safetensors.torch.save({"weight": torch.ones(2)}, {"position": '{"task": 2, "step": 0}'})
    path.write_bytes(data)
    assert_refused(folder, "was written by an older version of adalin and does not say whose it is; delete the folder")


# other rows


EDITS: dict[str, tuple[bytes, bytes]] = {
    "a better accuracy": (b"0.5", b"0.999"),
    "no accuracy": (b"0.5", b"7"),
    "a text": (b"0.5", b'"text"'),
    "not a number": (b"0.5", b"NaN"),
    "infinity": (b"0.5", b"1e400"),
    "a large number": (b"0.5", b"1" + b"0" * 400),
    "true": (b"0.5", b"true"),
    "another name": (b"online_accuracy", b"online_akkuracy"),
    "an object for a list": (b"[[0.25,0.75],null]", b'{"a":0.25}'),
    "another task": (b'"task":1', b'"task":2'),
    "a task that is a text": (b'"task":1', b'"task":"1"'),
    "another order": (b'"online_accuracy":0.5,"test_accuracy":null', b'"test_accuracy":null,"online_accuracy":0.5'),
    "a space": (b'"task":1', b'"task": 1'),
    "an empty line": (b"\n", b"\n\n"),
    "a deep list": (b"0.5", b"[" * 100_000 + b"]" * 100_000),
}


@pytest.mark.parametrize("edit", EDITS)
def test_rows_that_were_edited_are_named(edit: str, tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=3)
    data = rows_file(folder).read_bytes()
    assert EDITS[edit][0] in data
    rows_file(folder).write_bytes(data.replace(*EDITS[edit]))
    rows = rows_file(folder)
    changed, damaged = rf"{rows} was changed after checkpoint-\S* was written", rf"line \d of {rows} is damaged: .*"
    assert_refused(folder, rf"^({changed}|{damaged}); restore the file or delete the folder to start the run anew$")


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_rows_that_are_missing_are_noticed(rows: int, tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=3)
    rows_file(folder).write_bytes(b"".join(rows_file(folder).read_bytes().splitlines(keepends=True)[:rows]))
    assert_refused(folder, f"has {rows} rows, but its checkpoint comes after 3 tasks; restore rows.jsonl or delete")


def test_rows_after_the_checkpoint_are_nobodys_business(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    folder.append_row({"task": 2, "online_accuracy": 0.5})
    with rows_file(folder).open("ab") as file:
        file.write(b'{"task":3,"onl')
    assert folder.load(pytest.fail) is not None
    assert len(folder.snapshot(pytest.fail).rows) == 3


def test_an_edited_row_that_no_checkpoint_knows_is_named_if_it_can_be_no_row(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    with rows_file(folder).open("ab") as file:
        file.write(b'{"task":2,"online_accuracy":"text"}\n')
    message = r'^line 3 of .*rows.jsonl is damaged: "online_accuracy" is not a number, null, or a list or an object of'
    with pytest.raises(RunFolderError, match=message):
        folder.snapshot(pytest.fail)


def test_the_checkpoint_before_a_damaged_one_knows_fewer_rows(tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=2)
    folder.append_row({"task": 2, "online_accuracy": 0.25})
    newest = folder.save(Checkpoint({"weight": torch.ones(2)}, {"task": 3, "step": 0}))
    newest.write_bytes(newest.read_bytes()[:-1])
    warnings: list[str] = []
    loaded = folder.load(warnings.append)
    assert loaded is not None
    assert loaded.position["task"] == 2
    assert folder.snapshot(warnings.append).position == {"task": 2, "step": 0}
    assert len(warnings) == 2


# what cannot be saved


@pytest.mark.parametrize(
    "value", ["text", True, b"", pytest.param(object(), id="an object"), [1, "a"], 2**63], ids=repr
)
def test_a_row_that_could_not_be_read_again_is_refused(value: object, tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=1)
    before = rows_file(folder).read_bytes()
    with pytest.raises(RunFolderError, match=r'^the row of task 1 cannot be saved: "mine" is not a number') as error:
        folder.append_row({"task": 1, "mine": value})
    assert "\n" not in str(error.value)
    assert rows_file(folder).read_bytes() == before


@pytest.mark.parametrize("position", [{}, {"task": "3", "step": 0}, {"task": 2.5, "step": 0}, {"task": 1, "step": -1}])
def test_a_position_that_could_not_be_read_again_is_refused(position: dict[str, Any], tmp_path: Path) -> None:
    folder = trained(tmp_path, tasks=1)
    with pytest.raises(ValueError, match=r"^a checkpoint cannot be saved: position"):
        folder.save(Checkpoint({}, position))
