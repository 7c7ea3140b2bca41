"""Readers that leave while a command writes: what trains saves first, the others just end."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

TINY = ("--methods", "baseline", "adalin", "--seeds", "3", "--images", "1200", "--data", "bundled")
TASKS = 10
RUN = ("run", "random-label-mnist", *TINY, "--tasks", str(TASKS), "--epochs", "60", "--checkpoint-seconds", "600")


def start(folder, *arguments, **streams):
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "COLUMNS": "120"}
    return subprocess.Popen([sys.executable, "-m", "adalin", *arguments], cwd=folder, env=environment, **streams)


def rows_of(folder):
    return {path.parent.relative_to(folder): path.read_bytes() for path in folder.rglob("rows.jsonl")}


def stop_reading(folder, *arguments, begun):
    """Read three lines, as `head -3` does; returns the rows that were saved, of so many runs."""
    with start(folder, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"data: ")
        assert process.stdout.readline().startswith(b"engine: ")
        assert process.stdout.readline().startswith(b"task ")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
    assert len(list((folder / "runs").rglob("checkpoint-*"))) == begun
    return rows_of(folder / "runs")


def test_a_pipe_that_is_closed_while_training_saves_and_the_same_command_goes_on(tmp_path):
    saved = stop_reading(tmp_path, *RUN, "--workers", "1", begun=1)
    for out in ("runs", "straight"):
        command = (*RUN, "--workers", "1", "--out", out)
        assert start(tmp_path, *command, stdout=subprocess.DEVNULL).wait(timeout=300) == 0
    finished = rows_of(tmp_path / "runs")
    assert finished == rows_of(tmp_path / "straight")
    assert all(finished[name].startswith(rows) for name, rows in saved.items())
    assert saved != finished


def test_workers_save_too_when_the_pipe_is_closed(tmp_path):
    saved = stop_reading(tmp_path, *RUN, "--workers", "2", begun=2)
    assert all(rows.count(b"\n") < TASKS for rows in saved.values())


def test_a_terminal_that_is_gone_while_training_saves(tmp_path):
    ours, theirs = pty.openpty()
    process = start(tmp_path, *RUN, "--workers", "1", stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while b"accuracy" not in shown:
        shown += os.read(ours, 10_000)
    os.close(ours)
    process.communicate(timeout=300)
    assert process.returncode == 1
    assert len(list((tmp_path / "runs").rglob("checkpoint-*"))) == 1


@pytest.mark.parametrize("arguments", [["run", "--help"], ["list"], ["reproduce", "--list"], ["--version"]])
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        process = start(tmp_path, *arguments, stdout=pipe, stderr=subprocess.PIPE)
        assert process.communicate(timeout=120)[1] == b""
    assert process.returncode == 1
