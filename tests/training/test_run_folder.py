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
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adalin.training import _disk
from adalin.training._run_folder import Checkpoint, RunFolder, RunFolderError, check_writable
from failing_disk import folder_to_protect, largest_file, no_space, tmpfs

CONFIG: dict[str, Any] = {
    "benchmark": "digits",
    "method": {"name": "l2", "strength": 1e-3},
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
        ({"method": {"name": "l2", "strength": 1e-4}}, r"with method\.strength = 0\.001, not 0\.0001;"),
        ({"method": {"name": "l2"}}, r"with method\.strength = 0\.001, not null;"),
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


def test_later_starts_note_what_is_different_from_the_first(folder: RunFolder) -> None:
    folder.note_start(MANIFEST | {"torch": "2.14.0"})
    folder.note_start(MANIFEST)
    folder.note_start(MANIFEST | {"cpu": {"name": "EPYC", "cores": 64}, "new": 1})
    assert folder.manifest() == {**MANIFEST, "resumed": [{"torch": "2.14.0"}, {"cpu.cores": 64, "new": 1}]}


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
        RunFolder(tmp_path).create_or_check({"clip": math.inf}, {})


def test_find_gives_all_run_folders_in_order(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b", "a/2", "a/1")]
    for path in paths:
        RunFolder(path).create_or_check(CONFIG, MANIFEST)
    (tmp_path / "not a run").mkdir()
    assert RunFolder.find(tmp_path) == [RunFolder(path) for path in sorted(paths)]
    assert RunFolder.find(paths[0]) == [RunFolder(paths[0])]
    assert RunFolder.find(tmp_path / "missing") == []


# rows.jsonl


def test_rows_are_compact_lines_in_the_order_of_their_keys(folder: RunFolder) -> None:
    folder.append_row({"task": 0, "zeta": 0.1, "alpha": [1, True, None, "ü"]})
    folder.append_row({"task": 1})
    assert rows_bytes(folder) == b'{"task":0,"zeta":0.1,"alpha":[1,true,null,"\\u00fc"]}\n{"task":1}\n'
    assert folder.rows() == [{"task": 0, "zeta": 0.1, "alpha": [1, True, None, "ü"]}, {"task": 1}]


def test_nan_and_infinities_are_null_at_any_depth(folder: RunFolder) -> None:
    folder.append_row(
        {"task": 0, "loss": math.nan, "norms": [1.0, [-math.inf], (math.inf,)], "layers": {"a": math.nan}}
    )
    assert folder.rows() == [{"task": 0, "loss": None, "norms": [1.0, [None], [None]], "layers": {"a": None}}]
    json.loads(rows_bytes(folder), parse_constant=pytest.fail)


def test_a_row_is_complete_before_it_is_synced(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(rows_bytes(folder)))
    folder.append_row({"task": 0, "text": "x" * 100_000})
    assert synced[0] == rows_bytes(folder)
    assert folder.rows()[0]["text"] == "x" * 100_000


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


def assert_append_fails(folder: RunFolder, message: str, text: str = "") -> None:
    before = content(folder)
    with pytest.raises(RunFolderError, match=rf"cannot write to .*rows.jsonl: {message}; make room") as error:
        folder.append_row({"task": 1, "text": text})
    assert "\n" not in str(error.value)
    assert content(folder) == before


def test_a_row_that_does_not_fit_is_trimmed_back(folder: RunFolder) -> None:
    folder.append_row({"task": 0})
    with largest_file(4096):  # takes the first part of the row
        assert_append_fails(folder, os.strerror(errno.ENOSPC), text="x" * 10_000)
    folder.append_row({"task": 1})
    assert folder.rows() == [{"task": 0}, {"task": 1}]


def test_a_row_on_a_full_disk_is_trimmed_back() -> None:
    with tmpfs("64k") as path:
        folder = RunFolder(path)
        folder.append_row({"task": 0})
        assert_append_fails(folder, os.strerror(errno.ENOSPC), text="x" * 100_000)


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
from adalin.training._run_folder import RunFolder

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
                with pytest.raises(RunFolderError, match=message), folder.lock(wait=wait):
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
    with folder.lock(wait=60):
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


# checkpoints


def test_checkpoints_live_in_the_folder(folder: RunFolder) -> None:
    assert folder.load(warn=pytest.fail) is None
    path = folder.save(Checkpoint({"weight": torch.ones(2)}, {"task": 1}))
    assert path.parent == folder.path
    loaded = folder.load(warn=pytest.fail)
    assert loaded is not None
    assert loaded.position == {"task": 1}
