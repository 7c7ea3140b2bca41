"""Runs on a machine's own disk, with copies that others go on from."""

import json
import os
import resource
import shutil
import signal
import threading
from pathlib import Path

import pytest

from adalin.executors import Local, Work, _local, _mirror
from adalin.executors._mirror import copy_run, mirrored
from adalin.runs import RunFolder, Session
from executor_runs import local_rows, make_work, rows_of
from notes import Notes
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
    assert sum(notes.steps("resumed")) > 0
    assert rows_of(tmp_path / "shared") == rows_of(tmp_path / "two") == local_rows(4)


def test_a_command_that_wants_fewer_tasks_leaves_the_copies_of_more_as_they_are(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    Local().train(make_work(tmp_path / "one", workers=1, sync_to=shared, tasks=3), Notes())
    Local().train(make_work(tmp_path / "two", workers=1, tasks=1), Notes())
    Local().train(make_work(tmp_path / "two", workers=1, sync_to=shared, tasks=1), Notes())
    assert rows_of(shared) == local_rows(3)


def test_what_an_older_version_has_left_is_set_aside_in_the_copy_too(tmp_path: Path) -> None:
    def work(machine: str) -> Work:
        return make_work(tmp_path / machine, workers=1, sync_to=tmp_path / "shared", tasks=4)

    assert Local().train(work("one"), Notes(at_first_row=lambda: os.kill(os.getpid(), signal.SIGTERM)))
    old = rows_of(tmp_path / "shared")
    for path in (tmp_path / "shared").rglob("manifest.json"):
        manifest = json.loads(path.read_text())
        del manifest["engine"]
        path.write_text(json.dumps(manifest))
    assert not Local().train(work("two"), Notes())
    rows = rows_of(tmp_path / "shared")
    assert {name: own for name, own in rows.items() if "set-aside" not in name} == local_rows(4)
    assert {name.removesuffix("/set-aside-1"): own for name, own in rows.items() if "set-aside" in name} == old


def test_copies_need_a_folder_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs another folder than --out"):
        Local().train(make_work(tmp_path, sync_to=tmp_path / "x" / ".."), Notes())


def test_a_run_that_another_machine_trains_is_refused_and_the_others_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local, "LOCK_SECONDS", 0.0)
    work, notes = make_work(tmp_path / "out", workers=1, sync_to=tmp_path / "shared"), Notes()
    with RunFolder(tmp_path / "shared" / work.runs[0].folder).lock():
        Local().train(work, notes)
    assert notes.runs("error") == [work.runs[0]]
    assert len(rows_of(tmp_path / "shared")) == 3


def test_a_copy_that_is_damaged_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    shared, notes = tmp_path / "shared", Notes()
    Local().train(make_work(tmp_path / "one", workers=1, sync_to=shared), Notes())
    work = make_work(tmp_path / "two", workers=1, sync_to=shared)
    bad = shared / work.runs[0].folder
    for checkpoint in bad.glob("checkpoint-*"):
        checkpoint.write_bytes(b"\xff" * 100)
    before = {path.name: path.read_bytes() for path in bad.iterdir() if path.name != "lock"}
    Local().train(work, notes)
    assert notes.runs("error") == [work.runs[0]]
    assert notes.messages("error")[0].startswith(f"all checkpoints in {bad} are damaged; ")
    assert {path.name: path.read_bytes() for path in bad.iterdir() if path.name != "lock"} == before
    assert len(notes.of("done")) == 3


def test_a_run_that_another_command_trains_here_is_not_replaced_by_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local, "LOCK_SECONDS", 0.0)
    shared, notes = tmp_path / "shared", Notes()
    Local().train(make_work(tmp_path / "one", workers=1, sync_to=shared), Notes())
    work = make_work(tmp_path / "two", workers=1, sync_to=shared)
    ours = tmp_path / "two" / work.runs[0].folder
    with RunFolder(ours).lock():
        Local().train(work, notes)
        assert [path.name for path in ours.iterdir()] == ["lock"]
    assert [(event.run, event.cause) for event in notes.of("error")] == [(work.runs[0], "in use")]
    assert len(notes.of("done")) == 3


@pytest.mark.parametrize("target", ["two", "shared"])
def test_a_run_that_cannot_be_copied_is_reported_and_the_others_are_trained_and_copied(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, notes = tmp_path / "shared", Notes()
    Local().train(make_work(tmp_path / "one", workers=1, sync_to=shared, tasks=1), Notes())
    work = make_work(tmp_path / "two", workers=1, sync_to=shared)
    bad = tmp_path / target / work.runs[0].folder

    def copy(source: Path, target: Path) -> None:
        if target == bad:
            raise OSError("a disk that is broken")
        copy_run(source, target)

    monkeypatch.setattr(_mirror, "copy_run", copy)
    assert not Local().train(work, notes)
    assert [(event.run, event.message) for event in notes.of("error")] == [(work.runs[0], "a disk that is broken")]
    copied, name = rows_of(shared), str(work.runs[0].folder)
    assert copied == local_rows() | {name: local_rows(1)[name]}


def test_runs_without_checkpoints_in_between_are_copied_at_the_end_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    longest = threading.TIMEOUT_MAX
    work = make_work(tmp_path / "one", workers=1, sync_to=tmp_path / "two", checkpoint_seconds=longest)
    Local().train(work, Notes())
    assert failures == []
    assert rows_of(tmp_path / "two") == local_rows()


def test_more_runs_than_files_are_usually_open_have_their_locks(tmp_path: Path) -> None:
    runs, notes = [define("random-label-mnist", "adalin", seed) for seed in range(100)], Notes()
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, usual[1]))
    try:
        with mirrored(runs, Session(out=tmp_path / "out", emit=notes), tmp_path / "shared") as ours:
            assert ours == runs
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


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


def test_copies_that_are_killed_leave_one_temporary_file_at_most(tmp_path: Path, monkeypatch) -> None:
    def die(path: Path, data: bytes, *, temporary: Path) -> None:
        temporary.write_bytes(data)
        raise KeyboardInterrupt

    monkeypatch.setattr(_mirror, "write_atomically", die)
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for number in range(3):
        (source / f"checkpoint-{number}").write_text("new")
        with pytest.raises(KeyboardInterrupt):
            copy_run(source, target)
        (source / f"checkpoint-{number}").unlink()
    assert len(list(target.iterdir())) == 1
