"""Signals and deaths: what has been made is saved, everybody ends, and the same command goes on to the same bits."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adalin import run
from adalin.executors import _python, execute
from adalin.runs import RunFolder, RunFolderError, Session
from notes import Notes
from tiny_runs import define, outcome, train


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


COMMAND = """
import json, multiprocessing, sys
from adalin import run
from adalin.executors import _pool
from notes import name_of

def tell(name, message=None):
    children = [child.pid for child in multiprocessing.active_children()]
    print(json.dumps([name, message, children]), flush=True)

if __name__ == "__main__":
    out, workers, tasks = sys.argv[1:]
    run_pool = _pool._Pool.run
    _pool._Pool.run = lambda pool, stop: (tell("spawned"), run_pool(pool, stop))
    try:
        run("random-label-mnist", ["adalin", "shrink-perturb"], [0], out=out, workers=int(workers), tasks=int(tasks),
            images=40, epochs=10, emit=lambda event: tell(name_of(event), getattr(event, "message", None)))
    except KeyboardInterrupt as interrupt:
        assert str(interrupt) == "stopped and saved; the same call goes on"
        sys.exit(130)
"""
ENDLESS = 100_000


class Command:
    """The command in a process group of its own."""

    def __init__(self, out: Path, workers: int, tasks: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(out), str(workers), str(tasks)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.events: list[str] = []
        self.messages: list[str] = []
        self.children: list[int] = []

    def wait_for(self, event: str) -> None:
        assert self.process.stdout is not None
        while event not in self.events:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            self._note(line)

    def _note(self, line: str) -> None:
        event, message, self.children = json.loads(line)
        self.events.append(event)
        self.messages += [message] if message else []

    def finish(self) -> str:
        """What it wrote to stderr."""
        output, errors = self.process.communicate(timeout=300)
        for line in output.splitlines():
            self._note(line)
        return errors


@contextmanager
def command(out: Path, workers: int, tasks: int = ENDLESS) -> Iterator[Command]:
    started = Command(out, workers, tasks)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            os.killpg(started.process.pid, signal.SIGKILL)
            started.process.communicate()


def assert_goes_on(out: Path, whole: Path) -> None:
    """Two tasks more, and everything is as if nothing had happened."""
    positions = [outcome(folder.path).get("position", {"task": 0}) for folder in RunFolder.find(out)]
    done = max([position["task"] for position in positions], default=0)
    settings: dict[str, Any] = {"tasks": done + 2, "images": 40, "epochs": 10}
    for method in ("adalin", "shrink-perturb"):
        (result,) = run("random-label-mnist", [method], [0], out=out, **settings)
        one = define("random-label-mnist", method, **settings)
        assert result.state == "done"
        assert outcome(out / result.run.folder) == train([one], whole)[one]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_ends_and_a_second_process_is_refused_before(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with command(tmp_path / "out", workers=1) as process:
        process.wait_for("row")
        monkeypatch.setattr(_python, "LOCK_SECONDS", 0.1)
        with pytest.raises(RunFolderError) as error:
            assert_goes_on(tmp_path / "out", tmp_path / "whole")
        message = rf"another process \(pid {process.process.pid}\) is working on [^\n]*; wait for it or stop it"
        error.match(f"^{message}$")
        process.process.send_signal(number)
        assert process.finish() == ""
    assert process.process.returncode == 130
    assert process.events.count("stopped") == 1  # the second run was not begun
    assert process.messages == []
    assert_goes_on(tmp_path / "out", tmp_path / "whole")


@pytest.mark.parametrize(
    ("number", "whom", "when"),
    [
        (signal.SIGINT, "group", "row"),
        (signal.SIGTERM, "parent", "row"),
        (signal.SIGHUP, "group", "row"),
        (signal.SIGINT, "group", "spawned"),
    ],
)
def test_a_signal_ends_all_processes(number: signal.Signals, whom: str, when: str, tmp_path: Path) -> None:
    """Also while the workers still import torch."""
    with command(tmp_path / "out", workers=2) as process:
        process.wait_for(when)
        (os.killpg if whom == "group" else os.kill)(process.process.pid, number)
        assert process.finish() == ""
    assert process.process.returncode == 130
    assert process.messages == []
    if when == "row":
        assert "stopped" in process.events
        assert_goes_on(tmp_path / "out", tmp_path / "whole")
    else:
        assert "row" not in process.events


def test_workers_end_when_their_parent_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with command(tmp_path / "out", workers=2) as process:
        process.wait_for("row")
        process.process.kill()
        assert process.finish() == ""  # which waits for the workers too: they have its stderr
    monkeypatch.setattr(_python, "LOCK_SECONDS", 60)
    assert_goes_on(tmp_path / "out", tmp_path / "whole")


def test_a_worker_that_is_killed_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    with command(tmp_path / "out", workers=2) as process:
        process.wait_for("row")
        os.kill(process.children[0], signal.SIGKILL)
        process.wait_for("error")
        process.events.clear()
        process.wait_for("row")
        process.process.send_signal(signal.SIGTERM)
        assert "its process died" in process.finish()
    assert process.messages == ["its process died (exit code -9); the same command resumes it"]
    assert_goes_on(tmp_path / "out", tmp_path / "whole")


def test_a_worker_that_dies_is_replaced_and_every_run_is_told_of(tmp_path: Path) -> None:
    """As are all whose plugin cannot be imported."""
    runs = [define("random-label-mnist", "adalin", images=40 + more) for more in range(3)]
    notes = Notes()
    execute(runs, Session(out=tmp_path, emit=notes), workers=2, plugins=["there_is_no_such_plugin"])
    assert set(notes.names) == {"error"}
    assert set(notes.runs("error")) == set(runs)
    assert {message.split(" (")[0] for message in notes.messages("error")} == {"its process died"}


def test_workers_save_and_end_when_whoever_listens_fails(tmp_path: Path) -> None:
    runs = [define("random-label-mnist", "adalin", images=40 + more, tasks=500) for more in range(2)]

    def fail() -> None:
        raise RuntimeError("nobody listens")

    notes = Notes(at_first_row=fail)
    with pytest.raises(RuntimeError, match="nobody listens"):
        execute(runs, Session(out=tmp_path, emit=notes), workers=2)
    assert multiprocessing.active_children() == []
    (begun,) = notes.runs("row")
    assert outcome(tmp_path / begun.folder)["position"]["state"] == "stopped"
