"""Runs on a machine's own disk, with copies that others go on from."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from adalin.executors import Local, Work, _mirror
from adalin.executors._mirror import copy_run
from adalin.training import RunFolder
from executor_runs import Notes, local_rows, make_work, rows_of
from tiny_runs import after_epochs, define, outcome, train


def test_runs_that_are_stopped_on_one_machine_go_on_from_their_copies_on_another(tmp_path: Path) -> None:
    def work(machine: str) -> Work:
        return make_work(tmp_path / machine, workers=1, sync_to=tmp_path / "shared", tasks=4)

    assert Local().train(work("one"), Notes(at_first_row=lambda: os.kill(os.getpid(), signal.SIGTERM)))
    copied = rows_of(tmp_path / "shared")
    assert copied
    assert copied == rows_of(tmp_path / "one")
    assert copied != local_rows(4)
    shutil.rmtree(tmp_path / "one")
    notes = Notes()
    assert not Local().train(work("two"), notes)
    assert sum(details["steps"] for _, details in notes.of("resumed")) > 0
    assert rows_of(tmp_path / "shared") == rows_of(tmp_path / "two") == local_rows(4)


def test_a_command_that_wants_fewer_tasks_leaves_the_copies_of_more_as_they_are(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    Local().train(make_work(tmp_path / "one", workers=1, sync_to=shared, tasks=3), Notes())
    Local().train(make_work(tmp_path / "two", workers=1, tasks=1), Notes())
    Local().train(make_work(tmp_path / "two", workers=1, sync_to=shared, tasks=1), Notes())
    assert rows_of(shared) == local_rows(3)


def test_copies_need_a_folder_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs another folder than --out"):
        Local().train(make_work(tmp_path, sync_to=tmp_path / "x" / ".."), Notes())


def test_a_run_that_another_machine_trains_is_refused_and_the_others_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mirror, "LOCK_SECONDS", 0.0)
    work, notes = make_work(tmp_path / "out", workers=1, sync_to=tmp_path / "shared"), Notes()
    with RunFolder(tmp_path / "shared" / work.runs[0].folder).lock():
        Local().train(work, notes)
    assert [run for run, _ in notes.of("error")] == [work.runs[0]]
    assert len(rows_of(tmp_path / "shared")) == 3


def test_transitions_that_another_machine_made_and_lost_are_not_mixed_into_a_replay_buffer(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "replay-1-of-here").write_text("the one that counts")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "replay-1-of-a-lost-life").write_text("not copied before its machine was gone")
    copy_run(tmp_path / "shared", tmp_path / "own")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["replay-1-of-here"]


def test_a_copy_has_the_last_checkpoints_only_and_the_run_goes_on_from_it_to_the_bit(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin")
    expected = train([one], tmp_path / "whole")[one]
    for epochs in (1, 2, 1):
        train([one], tmp_path / "here", **after_epochs(epochs), checkpoint_seconds=-1)
        copy_run(tmp_path / "here" / one.folder, tmp_path / "there" / one.folder)
    here, there = ((tmp_path / place / one.folder).glob("checkpoint-*") for place in ("here", "there"))
    assert {path.name for path in here} == {path.name for path in there}
    assert train([one], tmp_path / "there")[one] == expected
    assert outcome(tmp_path / "there" / one.folder) == expected
