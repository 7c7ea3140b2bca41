"""A run's folder says what is wrong with it in one line, and no accident costs more than the last row."""

import errno
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adalin.runs import Checkpoint, RunFolder, RunFolderError, _disk, check_writable
from failing_disk import folder_to_protect, largest_file, no_space, tmpfs

CONFIG: dict[str, Any] = {
    "benchmark": "digits",
    "method": "l2",
    "options": {"strength": 1e-3},
    "widths": (100, 100),
    "seed": 0,
}
MANIFEST: dict[str, Any] = {"torch": "2.13.0", "threads": 1, "cpu": {"name": "EPYC", "cores": 2}}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "a")
    folder.create_or_check(CONFIG, MANIFEST)
    return folder


def content(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


def rows_bytes(folder: RunFolder) -> bytes:
    return (folder.path / "rows.jsonl").read_bytes()


# config.json, manifest.json


def test_a_new_folder_holds_config_and_manifest(folder: RunFolder) -> None:
    assert folder.config() == {**CONFIG, "widths": [100, 100]}
    assert folder.manifest() == MANIFEST
    assert sorted(content(folder)) == ["config.json", "manifest.json"]


def test_the_same_start_again_changes_nothing(folder: RunFolder) -> None:
    before = content(folder)
    folder.create_or_check(CONFIG, MANIFEST)
    folder.note_start(MANIFEST)
    assert content(folder) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, r"/a holds a run with seed = 0, not 1; use another folder or the settings of that run"),
        ({"seed": 1, "benchmark": "noise"}, r'with benchmark = "digits", not "noise";'),
        ({"options": {"strength": 1e-4}}, r"with options\.strength = 0\.001, not 0\.0001;"),
        ({"options": {}}, r"with options\.strength = 0\.001, not null;"),
        ({"extra": 1}, r"with extra = null, not 1;"),
    ],
)
def test_another_config_is_refused_by_its_first_difference(
    folder: RunFolder, change: dict[str, Any], message: str
) -> None:
    before = content(folder)
    with pytest.raises(ValueError, match=message) as error:
        folder.create_or_check(CONFIG | change, MANIFEST | {"torch": "3"})
    assert "\n" not in str(error.value)
    assert content(folder) == before


def test_later_starts_note_what_is_different_from_the_first_and_when_nothing_is_again(folder: RunFolder) -> None:
    folder.note_start(MANIFEST)
    folder.note_start(MANIFEST | {"torch": "2.14.0"})
    folder.note_start(MANIFEST)
    folder.note_start(MANIFEST)
    folder.note_start(MANIFEST | {"cpu": {"name": "EPYC", "cores": 64}, "new": 1})
    assert folder.manifest() == {**MANIFEST, "resumed": [{"torch": "2.14.0"}, {}, {"cpu.cores": 64, "new": 1}]}


def test_a_start_that_died_between_its_two_files_can_be_repeated(folder: RunFolder) -> None:
    before = content(folder)
    (folder.path / "config.json").rename(folder.path / "config.json.tmp")
    folder.create_or_check(CONFIG, MANIFEST)
    assert content(folder) == before


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
@pytest.mark.parametrize("damage", [b"", b'{"seed": ', b"\xff\xfe{}", b"[]"])
def test_damaged_json_is_one_line_that_names_the_file(folder: RunFolder, name: str, damage: bytes) -> None:
    (folder.path / name).write_bytes(damage)
    with pytest.raises(RunFolderError, match=rf"/a/{name} is damaged: .*delete the folder") as error:
        folder.create_or_check(CONFIG, MANIFEST)
    assert "\n" not in str(error.value)


def test_a_config_is_not_ambiguous_about_infinity(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inf"):
        RunFolder(tmp_path).create_or_check({**CONFIG, "clip": math.inf}, {})


# rows.jsonl


def test_rows_are_compact_lines_in_the_order_of_their_keys(folder: RunFolder) -> None:
    folder.append_row({"task": 0, "zeta": 0.1, "alpha": [1, None, {"ü": 2.5}]})
    folder.append_row({"task": 1})
    assert rows_bytes(folder) == b'{"task":0,"zeta":0.1,"alpha":[1,null,{"\\u00fc":2.5}]}\n{"task":1}\n'
    assert folder.rows() == [{"task": 0, "zeta": 0.1, "alpha": [1, None, {"ü": 2.5}]}, {"task": 1}]


def test_nan_and_infinities_are_null_at_any_depth(folder: RunFolder) -> None:
    folder.append_row(
        {"task": 0, "loss": math.nan, "norms": [1.0, [-math.inf], (math.inf,)], "layers": {"a": math.nan}}
    )
    assert folder.rows() == [{"task": 0, "loss": None, "norms": [1.0, [None], [None]], "layers": {"a": None}}]
    json.loads(rows_bytes(folder), parse_constant=pytest.fail)


def test_a_row_is_complete_before_it_is_synced(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(rows_bytes(folder)))
    folder.append_row({"task": 0, "numbers": [1] * 100_000})
    assert synced[0] == rows_bytes(folder)
    assert folder.rows()[0]["numbers"] == [1] * 100_000


def test_no_rows_yet(folder: RunFolder) -> None:
    assert folder.rows() == []
    folder.trim_rows(3)
    assert not (folder.path / "rows.jsonl").exists()


def test_a_line_torn_anywhere_is_no_row_and_the_next_row_replaces_it(folder: RunFolder) -> None:
    folder.append_row({"task": 0, "loss": 0.5})
    complete = rows_bytes(folder)
    folder.append_row({"task": 1, "loss": 0.25})
    both = rows_bytes(folder)
    for length in range(len(complete), len(both)):
        (folder.path / "rows.jsonl").write_bytes(both[:length])
        assert folder.rows() == [{"task": 0, "loss": 0.5}]
        assert rows_bytes(folder) == both[:length], "reading modifies nothing"
        folder.append_row({"task": 1, "loss": 0.25})
        assert rows_bytes(folder) == both
        (folder.path / "rows.jsonl").write_bytes(both[:length])
        folder.trim_rows(2)
        assert rows_bytes(folder) == complete


def test_a_damaged_line_in_the_middle_is_one_line_that_names_it(folder: RunFolder) -> None:
    for task in range(3):
        folder.append_row({"task": task})
    (folder.path / "rows.jsonl").write_bytes(rows_bytes(folder).replace(b'"task":1', b'"task";1'))
    for use in (folder.rows, lambda: folder.trim_rows(3)):
        with pytest.raises(RunFolderError, match=r"line 2 of .*/a/rows.jsonl is damaged"):
            use()


def test_trimming_keeps_the_rows_of_the_first_tasks(folder: RunFolder) -> None:
    for task in range(4):
        folder.append_row({"task": task, "loss": 0.1 * task})
    before = rows_bytes(folder)
    folder.trim_rows(2)
    assert rows_bytes(folder) == b"".join(before.splitlines(keepends=True)[:2])
    folder.trim_rows(0)
    assert folder.rows() == []


def test_trimming_nothing_does_not_touch_the_file(folder: RunFolder) -> None:
    folder.append_row({"task": 0})
    before = (folder.path / "rows.jsonl").stat()
    folder.trim_rows(1)
    after = (folder.path / "rows.jsonl").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)


def test_a_failed_trim_keeps_all_rows(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for task in range(3):
        folder.append_row({"task": task})
    before = content(folder)
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(RunFolderError, match="No space left on device"):
        folder.trim_rows(1)
    assert content(folder) == before


# full and read-only disks


def assert_append_fails(folder: RunFolder, message: str, numbers: int = 0) -> None:
    before = content(folder)
    with pytest.raises(RunFolderError, match=rf"cannot write to .*rows.jsonl: {message}; make room") as error:
        folder.append_row({"task": 1, "numbers": [1] * numbers})
    assert "\n" not in str(error.value)
    assert content(folder) == before


def test_a_row_that_does_not_fit_is_trimmed_back(folder: RunFolder) -> None:
    folder.append_row({"task": 0})
    with largest_file(4096):  # takes the first part of the row
        assert_append_fails(folder, os.strerror(errno.ENOSPC), numbers=10_000)
    folder.append_row({"task": 1})
    assert folder.rows() == [{"task": 0}, {"task": 1}]


def test_a_row_on_a_full_disk_is_trimmed_back() -> None:
    with tmpfs("64k") as path:
        folder = RunFolder(path)
        folder.append_row({"task": 0})
        assert_append_fails(folder, os.strerror(errno.ENOSPC), numbers=100_000)


def test_a_row_that_is_found_not_to_fit_late_is_trimmed_back(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.append_row({"task": 0})
    monkeypatch.setattr(os, "fsync", no_space)
    assert_append_fails(folder, os.strerror(errno.ENOSPC))


def test_a_read_only_place_is_one_line_whatever_is_written() -> None:
    with folder_to_protect() as (path, read_only):
        check_writable(path, 1)
        with read_only:
            for write in (
                lambda: check_writable(path / "new" / "run", 1),
                lambda: RunFolder(path / "new").create_or_check(CONFIG, MANIFEST),
                lambda: RunFolder(path).create_or_check(CONFIG, MANIFEST),
                lambda: RunFolder(path).append_row({"task": 0}),
                lambda: RunFolder(path).lock().__enter__(),
            ):
                with pytest.raises(RunFolderError, match=rf"cannot write to {path}.*: Permission denied; ") as error:
                    write()
                assert "\n" not in str(error.value)


def test_too_little_space_is_said_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "not" / "yet", 1000)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(_disk.shutil, "disk_usage", lambda path: SimpleNamespace(free=1_500_000))
    check_writable(tmp_path, 1_500_000)
    with pytest.raises(RunFolderError, match=r"run has 1\.5 MB free and the run needs 2\.0 MB; make room"):
        check_writable(tmp_path / "run", 2_000_000)


def test_a_file_in_place_of_the_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="is a file, and the runs need a folder"):
        check_writable(tmp_path / "file", 1)
    with pytest.raises(RunFolderError, match="File exists"):
        RunFolder(tmp_path / "file").create_or_check(CONFIG, MANIFEST)


# lock

HOLDER = """
import sys, time
from pathlib import Path
from adalin.runs._folder import RunFolder

with RunFolder(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    time.sleep(600)
"""


def test_another_process_is_refused_until_the_holder_is_killed(folder: RunFolder) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder.path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
            message = rf"another process \(pid {holder.pid}\) is working on {folder.path}; wait for it or stop it$"
            for wait in (0.0, 0.2):
                with pytest.raises(RunFolderError, match=message), folder.lock(until=time.monotonic() + wait):
                    pass
        finally:
            holder.send_signal(signal.SIGKILL)
    with folder.lock():
        assert (folder.path / "lock").read_text() == f"{os.getpid()} {socket.gethostname()}\n"


def test_a_second_lock_in_this_process_is_refused(folder: RunFolder) -> None:
    with ExitStack() as stack:
        stack.enter_context(folder.lock())
        for second in (folder, RunFolder(folder.path)):
            with pytest.raises(RunFolderError, match=rf"\(pid {os.getpid()}\)"), second.lock():
                pass
    with folder.lock():
        pass


DELETED = """
import sys, time
from pathlib import Path
from adalin.runs import Checkpoint, RunFolder, RunFolderError

folder = RunFolder(Path(sys.argv[1]))
with folder.lock():
    folder.append_row({"task": 0})
    folder.save(Checkpoint({}, {"task": 1, "step": 0}))
    print("locked", flush=True)
    sys.stdin.readline()
    for write in (
        lambda: folder.append_row({"task": 1}),
        lambda: folder.trim_rows(0),
        lambda: folder.save(Checkpoint({}, {"task": 1, "step": 5})),
        lambda: folder.add_cost(1.0),
        lambda: folder.note_start({"tasks": 9}),
        lambda: folder.clear(),
    ):
        try:
            write()
            print("written", flush=True)
        except RunFolderError as error:
            print(error, flush=True)
"""


@pytest.mark.parametrize("replaced_by", ["newcomer", "file", "nothing"])
def test_the_owner_of_a_lock_that_was_deleted_writes_nothing_more(folder: RunFolder, replaced_by: str) -> None:
    command = [sys.executable, "-c", DELETED, str(folder.path)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner,
        ExitStack() as newcomer,
    ):
        assert owner.stdout is not None
        assert owner.stdout.readline() == "locked\n"
        with pytest.raises(RunFolderError, match="is working on"), folder.lock():
            pass
        (folder.path / "lock").unlink()
        if replaced_by == "newcomer":
            newcomer.enter_context(folder.lock())
            folder.append_row({"task": 1, "loss": 0.5})
            folder.save(Checkpoint({}, {"task": 2, "step": 0}))
        elif replaced_by == "file":
            (folder.path / "lock").touch()
        before = content(folder)
        printed = owner.communicate("\n")[0].splitlines()
        assert len(printed) == 6
        for line in printed:
            assert line.startswith(f"{folder.path / 'lock'} was deleted while this process worked on the run, and")
            assert line.endswith("start the same command again to go on")
        assert content(folder) == before
    if replaced_by == "newcomer":
        assert folder.load(pytest.fail) is not None


def test_whoever_waited_for_a_lock_that_is_deleted_takes_the_new_one(folder: RunFolder) -> None:
    """Else two processes would hold one each."""
    locked = threading.Event()
    with ExitStack() as old:
        old.enter_context(folder.lock())

        def wait() -> None:
            with folder.lock(until=time.monotonic() + 60):
                locked.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not locked.wait(0.2)
        (folder.path / "lock").unlink()
        assert locked.wait(60), "it looks at the path again and again"
        waiting.join()


def test_one_deadline_serves_many_runs(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path / str(number)) for number in range(20)]
    start = time.monotonic()
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(folder.lock())
        for folder in folders:
            with pytest.raises(RunFolderError, match="is working on"), folder.lock(until=start + 0.3):
                pass
        assert time.monotonic() >= start + 0.3


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("link", "it is a symbolic link; move it away"),
        ("pipe", "it is not a regular file; move it away"),
        ("folder", "Is a directory; move it away"),
    ],
)
def test_a_lock_that_is_no_file_is_one_line(folder: RunFolder, kind: str, problem: str, tmp_path: Path) -> None:
    lock, precious = folder.path / "lock", tmp_path / "precious"
    precious.write_text("mine")
    if kind == "link":
        lock.symlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    with pytest.raises(RunFolderError) as error, folder.lock():
        pass
    assert str(error.value) == f"cannot write to {lock}: {problem}, then start the same command again"
    assert folder.held_by() is None
    assert folder.last_held_by() is None
    assert precious.read_text() == "mine"


def test_the_lock_tells_which_machine_holds_it_and_which_was_the_last(folder: RunFolder) -> None:
    assert folder.held_by() is None
    assert folder.last_held_by() is None
    with folder.lock():
        assert folder.held_by() == socket.gethostname()
    assert folder.held_by() is None
    assert folder.last_held_by() == socket.gethostname()


def test_what_a_lock_says_cannot_write_to_the_terminal(folder: RunFolder) -> None:
    with folder.lock():
        (folder.path / "lock").write_text("12 \x1b[2J\nmachine\n")
        with pytest.raises(RunFolderError, match=r"\(pid 12 on \?\[2J\?machine\)"), folder.lock():
            pass


def test_waiting_gets_the_lock_once_it_is_free(folder: RunFolder) -> None:
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with folder.lock():
            locked.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    threading.Timer(0.2, release.set).start()
    with folder.lock(until=time.monotonic() + 60):
        assert release.is_set()
    holder.join()


def test_an_error_under_the_lock_frees_it_and_passes(folder: RunFolder) -> None:
    with pytest.raises(FileNotFoundError), folder.lock():
        raise FileNotFoundError
    with folder.lock():
        pass


def test_locking_creates_the_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "new" / "run").lock():
        assert (tmp_path / "new" / "run" / "lock").read_text() == f"{os.getpid()} {socket.gethostname()}\n"


# clear


def imported(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.record(CONFIG, MANIFEST, [{"task": 0, "loss": 0.5}], {"task": 1, "step": 0}, 3.0)
    return folder


USERS = ("NOTES.md", "thesis.tex", "replay-notes.txt", "checkpoint-notes.txt", "config.json.old", "rows.jsonl~", "lock")


def test_clearing_deletes_the_run_and_nothing_of_the_users(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    for name in USERS:
        (folder.path / name).write_text("mine")
    (folder.path / "plots").mkdir()
    (folder.path / "plots" / "config.json").write_text("mine")
    for name in ("config.json.tmp", "checkpoint.tmp", f"replay-{0:010d}-{9:010d}-{'a' * 64}.safetensors"):
        (folder.path / name).touch()
    folder.clear()
    assert sorted(path.name for path in folder.path.iterdir()) == sorted([*USERS, "plots"])
    assert all((folder.path / name).read_text() == "mine" for name in (*USERS, "plots/config.json"))
    folder.clear()
    folder.create_or_check(CONFIG, {**MANIFEST, "tasks": 2})
    assert folder.manifest() == {**MANIFEST, "tasks": 2}


def test_clearing_deletes_links_and_not_what_they_lead_to(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    for name in ("config.json", "rows.jsonl", "cost.json"):
        (folder.path / name).rename(tmp_path / name)
        (folder.path / name).symlink_to(tmp_path / name)
    (tmp_path / "place").symlink_to(folder.path)
    before = {name: (tmp_path / name).read_bytes() for name in ("config.json", "rows.jsonl", "cost.json")}
    RunFolder(tmp_path / "place").clear()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert list(folder.path.iterdir()) == []


def test_a_folder_with_the_name_of_a_file_stops_clearing_before_it_begins(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    (folder.path / "replay.tmp").mkdir()
    before = sorted(folder.path.iterdir())
    with pytest.raises(RunFolderError, match=r"cannot write to .*/run: replay.tmp is a folder; move it away"):
        folder.clear()
    assert sorted(folder.path.iterdir()) == before


@pytest.mark.parametrize("after", range(5))
def test_a_clear_that_dies_in_the_middle_is_repaired_by_the_next(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks in between sees the whole run, or none."""
    folder, unlink, left = imported(tmp_path / "run"), Path.unlink, after

    def fail_at_last(path: Path) -> None:
        nonlocal left
        if not left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        left -= 1
        unlink(path)

    monkeypatch.setattr(Path, "unlink", fail_at_last)
    with pytest.raises(RunFolderError, match="Input/output error"):
        folder.clear()
    monkeypatch.undo()
    if after == 0:
        assert RunFolder.find(tmp_path) == [folder]
        assert folder.snapshot().rows == [{"task": 0, "loss": 0.5}]
    else:
        assert RunFolder.find(tmp_path) == []
    assert (folder.peek() or {}).get("recorded"), "which says that it is to be cleared"
    folder.clear()
    assert list(folder.path.iterdir()) == []


# links in the place of files


@pytest.mark.parametrize(
    "name", ["config.json.tmp", "manifest.json.tmp", "rows.jsonl.tmp", "cost.json.tmp", "checkpoint.tmp"]
)
@pytest.mark.parametrize("target", ["precious", "missing", "/dev/full"])
def test_temporaries_are_not_written_through_links(name: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    path = tmp_path / "run"
    path.mkdir()
    (path / name).symlink_to(tmp_path / target)
    folder = imported(path)
    folder.trim_rows(0)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "missing").exists()
    assert not (path / name).is_symlink()


@pytest.mark.parametrize("kind", ["pipe", "hard link"])
def test_temporaries_are_not_written_into_what_is_there(kind: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    path = tmp_path / "run"
    path.mkdir()
    for name in ("config.json.tmp", "checkpoint.tmp"):
        if kind == "pipe":
            os.mkfifo(path / name)
        else:
            (path / name).hardlink_to(tmp_path / "precious")
    assert imported(path).load(pytest.fail) is not None
    assert (tmp_path / "precious").read_text() == "mine"


def test_what_links_lead_to_stays_whole(tmp_path: Path) -> None:
    folder = imported(tmp_path / "run")
    names = ("rows.jsonl", "cost.json")
    for name in names:
        (folder.path / name).rename(tmp_path / name)
        (folder.path / name).symlink_to(tmp_path / name)
    before = [(tmp_path / name).read_bytes() for name in names]
    with pytest.raises(RunFolderError, match=r"rows\.jsonl: it is a symbolic link; move it away"):
        folder.append_row({"task": 1})
    folder.trim_rows(1)  # as every start does
    folder.append_row({"task": 1})
    folder.add_cost(1.0)
    assert [(tmp_path / name).read_bytes() for name in names] == before
    assert len(folder.rows()) == 2
    assert folder.cost() == 4.0


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_rows_are_not_added_to_what_is_no_file(folder: RunFolder, kind: str) -> None:
    rows = folder.path / "rows.jsonl"
    if kind == "pipe":
        os.mkfifo(rows)
    elif kind == "folder":
        rows.mkdir()
    else:
        rows.symlink_to("/dev/zero")
    for use in (lambda: folder.append_row({"task": 0}), folder.rows, lambda: folder.trim_rows(0)):
        with pytest.raises(RunFolderError, match=r"^cannot (write to|read) .*/a/rows\.jsonl: \S[^\n]*$"):
            use()


def test_paths_that_are_no_utf8_work_and_can_be_printed(tmp_path: Path) -> None:
    folder = imported(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\nrun")))
    with folder.lock():
        folder.append_row({"task": 1})
        folder.save(Checkpoint({"weight": torch.ones(2)}, {"task": 2, "step": 0}))
        assert folder.load(pytest.fail) is not None
        assert RunFolder.find(tmp_path) == [folder]
        for break_it in (
            lambda: folder.lock().__enter__(),
            lambda: folder.create_or_check(CONFIG | {"seed": 1}, MANIFEST),
            lambda: (folder.path / "rows.jsonl").write_text("x\n") and folder.snapshot(),
            lambda: (folder.path / "config.json").write_text("x") and folder.snapshot(),
        ):
            with pytest.raises((RunFolderError, ValueError)) as error:
                break_it()
            str(error.value).encode()
            assert str(error.value).isprintable()


# checkpoints


def test_checkpoints_live_in_the_folder(folder: RunFolder) -> None:
    assert folder.load(warn=pytest.fail) is None
    path = folder.save(Checkpoint({"weight": torch.ones(2)}, {"task": 0, "step": 1}))
    assert path.parent == folder.path
    loaded = folder.load(warn=pytest.fail)
    assert loaded is not None
    assert loaded.position == {"task": 0, "step": 1}
