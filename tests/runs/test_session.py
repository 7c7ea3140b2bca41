"""A session opens the folder of a run, or says in one line why it cannot; other runs go on."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

import adalin.executors  # noqa: F401, so that the kinds of runs are there
from adalin.runs import Checkpoint, Position, Run, RunFolder, Session, read_run
from notes import Notes

MANIFEST: dict[str, Any] = {"tasks": 3, "data": None}


def make(tasks: int = 3) -> Run[Any]:
    settings = {"tasks": tasks, "epochs": 2, "batch_size": 16, "lr": 0.01, "images": 64}
    return read_run({"benchmark": "random-label-mnist", "method": "adalin", "seed": 3, **settings})


def record(run: Run[Any], out: Path) -> RunFolder:
    """The folder of a run that was imported with all its tasks."""
    folder = RunFolder(out / run.folder)
    rows = [{"task": task, "online_accuracy": 0.5} for task in range(run.tasks)]
    folder.record(dict(run.config), {"tasks": run.tasks}, rows, Position(run.tasks, 0, "done").as_dict(), 1.0)
    return folder


def test_a_new_run_gets_its_folder_and_nobody_else_does_meanwhile(tmp_path: Path) -> None:
    run, notes = make(), Notes()
    first, second = Session(out=tmp_path), Session(out=tmp_path, emit=notes)
    with first.opened(run, MANIFEST) as folder:
        assert folder is not None
        assert folder.config() == run.config
        assert folder.manifest() == MANIFEST
        with second.opened(run, MANIFEST) as refused:
            assert refused is None
    (problem,) = notes.of("error")
    assert (problem.run, problem.cause) == (run, "in use")
    assert "is working on" in problem.message
    with second.opened(run, MANIFEST) as free:
        assert free == folder
    assert notes.names == ["error"]


def test_the_deadline_of_locks_is_one_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, notes, now = make(), Notes(), 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    session = Session(out=tmp_path, lock_deadline=110.0, emit=notes)
    with RunFolder(tmp_path / run.folder).lock():
        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(time, "sleep", sleep)
        for _ in range(3):
            with session.opened(run, MANIFEST) as folder:
                assert folder is None
    assert [problem.cause for problem in notes.of("error")] == ["in use"] * 3
    assert 110.0 <= now < 111.0, "who has waited for one of them does not wait for the next"


def test_a_folder_of_another_run_is_told_and_left_alone(tmp_path: Path) -> None:
    run, notes = make(), Notes()
    other = dict(run.config) | {"lr": 0.5}
    RunFolder(tmp_path / run.folder).create_or_check(other, MANIFEST)
    with Session(out=tmp_path, emit=notes).opened(run, MANIFEST) as folder:
        assert folder is None
    (message,) = notes.messages("error")
    assert "holds a run with lr = 0.5, not 0.01" in message
    assert RunFolder(tmp_path / run.folder).config() == other


def test_a_run_from_before_a_setting_was_added_has_its_default(tmp_path: Path) -> None:
    run, notes = make(), Notes()
    old = {name: value for name, value in run.config.items() if name not in ("clip", "precision")}
    RunFolder(tmp_path / run.folder).create_or_check(old, MANIFEST)
    with Session(out=tmp_path, emit=notes).opened(run, MANIFEST) as folder:
        assert folder is not None
    assert notes.names == []


def test_an_imported_run_of_which_more_is_wanted_starts_anew(tmp_path: Path) -> None:
    notes, session_out = Notes(), tmp_path
    folder = record(make(tasks=2), session_out)
    with Session(out=session_out, emit=notes).opened(make(tasks=3), MANIFEST) as opened:
        assert opened == folder
        assert folder.rows() == []
        assert folder.peek() is None
    assert notes.names == ["warning"]
    assert notes.messages("warning") == [
        f"{folder.path} was imported with fewer tasks, without its network: it starts anew"
    ]


def test_an_imported_run_of_which_no_more_is_wanted_stays_as_it_is(tmp_path: Path) -> None:
    notes = Notes()
    folder = record(make(tasks=3), tmp_path)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with Session(out=tmp_path, emit=notes).opened(make(tasks=2), MANIFEST | {"tasks": 2}) as opened:
        assert opened == folder
    after = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.name != "lock"}
    assert after == before
    assert notes.names == []


def test_what_goes_wrong_inside_frees_the_folder(tmp_path: Path) -> None:
    run, session = make(), Session(out=tmp_path)
    with pytest.raises(ValueError, match="inside"), session.opened(run, MANIFEST):
        raise ValueError("inside")
    with session.opened(run, MANIFEST) as folder:
        assert folder is not None


# engines


def stopped(run: Run[Any], out: Path, manifest: dict[str, Any]) -> RunFolder:
    """A run that another process has begun, one task of three."""
    folder = RunFolder(out / run.folder)
    folder.create_or_check(dict(run.config), manifest)
    folder.append_row({"task": 0, "online_accuracy": 0.5})
    folder.save(Checkpoint({"weight": torch.ones(3)}, Position(1, 0, "stopped").as_dict()))
    return folder


HERE = MANIFEST | {"engine": {"name": "native", "kernels": "x86_64 FMA"}}
THERE = MANIFEST | {"engine": {"name": "module", "kernels": "x86_64 FMA"}}


def test_an_unfinished_run_of_an_older_version_is_set_aside_and_starts_anew(tmp_path: Path) -> None:
    run, notes = make(), Notes()
    folder = stopped(run, tmp_path, MANIFEST)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with Session(out=tmp_path, emit=notes).opened(run, HERE) as opened:
        assert opened == folder
        assert folder.rows() == []
        assert folder.peek() is None
        assert folder.manifest() == HERE
    assert notes.names == ["warning"]
    assert notes.messages("warning") == [
        f"{folder.path} is a run of an older version: it starts anew; its files are in set-aside-1"
    ]
    assert RunFolder.find(tmp_path) == [folder]
    kept = {path.name.removesuffix(".txt"): path.read_bytes() for path in (folder.path / "set-aside-1").iterdir()}
    assert kept == before


def test_nothing_that_was_set_aside_before_is_overwritten(tmp_path: Path) -> None:
    run = make()
    for number in (1, 2):
        folder = stopped(run, tmp_path, MANIFEST | {"tasks": number})
        with Session(out=tmp_path).opened(run, HERE):
            assert (folder.path / f"set-aside-{number}" / "config.json.txt").exists()
        folder.clear()
    assert '"tasks": 1' in (folder.path / "set-aside-1" / "manifest.json").read_text()


def test_a_finished_run_of_an_older_version_stays_a_result(tmp_path: Path) -> None:
    run, notes = make(tasks=1), Notes()
    folder = stopped(run, tmp_path, MANIFEST | {"tasks": 1})
    with Session(out=tmp_path, emit=notes).opened(run, HERE):
        assert len(folder.rows()) == 1
        assert folder.manifest() == MANIFEST | {"tasks": 1}
    assert notes.names == []


def test_a_run_goes_on_with_another_engine_only_if_that_is_allowed(tmp_path: Path) -> None:
    run, notes = make(), Notes()
    folder = stopped(run, tmp_path, THERE)
    with Session(out=tmp_path, emit=notes).opened(run, HERE) as opened:
        assert opened is None
    change = (
        f"{folder.path} was trained with another engine (module, x86_64 FMA) than there is here (native, x86_64 FMA)"
    )
    assert notes.messages("error") == [
        f"{change}, and would go on with other last digits: use a machine like that one, or give --allow-engine-change"
    ]
    with Session(out=tmp_path, emit=notes, allow_engine_change=True).opened(run, HERE) as opened:
        assert opened == folder
        assert len(folder.rows()) == 1
    assert notes.messages("warning") == [f"{change}: it goes on with other last digits"]
    with Session(out=tmp_path, emit=notes).opened(run, HERE) as opened:  # where it was now
        assert opened == folder
    for _ in range(2):  # and back
        with Session(out=tmp_path, emit=notes, allow_engine_change=True).opened(run, THERE) as opened:
            assert opened == folder
    assert len(notes.messages("warning")) == 2
    assert folder.manifest()["resumed"] == [{"engine.name": "native"}] * 2 + [{}]
