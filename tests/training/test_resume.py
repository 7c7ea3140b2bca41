"""A run that was stopped, by whatever, goes on to the same end; and the comparison would notice if it did not."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from adalin.training import Run, RunFolder, RunFolderError, _checkpoint, _execute, _train, run
from adalin.training._run_folder import Checkpoint
from failing_disk import largest_file, no_space
from tiny_runs import BENCHMARKS, after_epochs, define, outcome, train

METHODS = ["adalin+l2", "shrink-perturb", "scratch", "adalin-tanh:granularity=network", "fourier"]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


# stopped


DOHARE = {"preset": "dohare2024", "steps": None, "epochs": 2, "lr": 0.05, "images": 10, "batch_size": 6}


@pytest.mark.parametrize(
    ("benchmark", "settings"),
    [
        ("random-label-mnist", {}),
        ("class-split-cifar100", {}),
        ("class-incremental-cifar100", {}),
        ("class-incremental-cifar100", DOHARE),
    ],
)
def test_a_stop_after_any_step_changes_nothing(
    benchmark: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [define(benchmark, method, seed, **settings) for method, seed in (("adalin", 0), ("crelu+scratch", 1))]
    expected = train(runs, tmp_path / "whole")
    monkeypatch.setattr(_train, "FIRST_CHUNK", 1)
    monkeypatch.setattr(_train, "CHUNK_SECONDS", 0.0)
    one = runs[0]
    assert train(runs, tmp_path / "chunks") == expected
    for count in range(1, one.total_steps):
        stopped = train([one], tmp_path / str(count), **after_epochs(count))[one]["position"]
        assert one.steps_of(stopped["task"]) + stopped["step"] == count
        assert train([one], tmp_path / str(count))[one] == expected[one], count


@pytest.mark.parametrize("benchmark", [name for name in BENCHMARKS if not name.startswith("class-incremental")])
def test_a_stop_after_any_epoch_changes_nothing(benchmark: str, tmp_path: Path) -> None:
    runs = [define(benchmark, method, seed) for method, seed in (("adalin+l2", 0), ("l2", 0), ("adalin+l2", 1))]
    runs = runs[:1] if benchmark == "class-split-cifar100" else runs  # others are trained one after the other
    expected = train(runs, tmp_path / "whole")
    epochs, tasks = runs[0].epochs, runs[0].tasks
    for count in range(1, epochs * tasks):
        stopped = train(runs, tmp_path / str(count), **after_epochs(count))
        steps = count % epochs * runs[0].steps_in(0) // epochs
        for one in runs:
            position = stopped[one]["position"]
            assert (position["task"], position["step"], position["state"]) == (count // epochs, steps, "stopped")
        assert train(runs, tmp_path / str(count)) == expected, count


@pytest.mark.parametrize("benchmark", ["random-label-mnist", "class-split-cifar100"])
@pytest.mark.parametrize("method", METHODS)
def test_a_stop_after_every_epoch_changes_nothing(benchmark: str, method: str, tmp_path: Path) -> None:
    one = define(benchmark, method)
    for _ in range(one.epochs * one.tasks):
        train([one], tmp_path / "stopped", **after_epochs(1))
    assert outcome(tmp_path / "stopped" / one.folder) == train([one], tmp_path / "whole")[one]


def test_runs_that_were_stopped_at_different_times_go_on_together(tmp_path: Path) -> None:
    runs = [define("random-label-mnist", method) for method in ("adalin", "l2", "baseline", "tanh", "scratch")]
    for count, one in enumerate(runs):
        train([one], tmp_path / "stopped", **after_epochs(count))
    assert train(runs, tmp_path / "stopped") == train(runs, tmp_path / "whole")


@pytest.mark.parametrize("benchmark", ["random-label-mnist", "class-split-cifar100"])
@pytest.mark.parametrize("method", METHODS)
def test_more_tasks_later_are_the_same_as_from_the_start(benchmark: str, method: str, tmp_path: Path) -> None:
    short, long = (define(benchmark, method, tasks=tasks) for tasks in (1, 3))
    train([short], tmp_path / "extended")
    assert short.folder == long.folder
    assert train([long], tmp_path / "extended")[long] == train([long], tmp_path / "whole")[long]


def test_fewer_tasks_later_change_nothing(tmp_path: Path) -> None:
    long, short = (define("random-label-mnist", "adalin", tasks=tasks) for tasks in (2, 1))
    before = train([long], tmp_path)[long]
    events: list[str] = []
    assert train([short], tmp_path, report=lambda event, run, details: events.append(event))[short] == before
    assert events[-1] == "done"
    assert "steps" not in events


# The comparison has teeth: what a checkpoint holds is needed, all of it.


@pytest.mark.parametrize(
    ("benchmark", "method"),
    [("random-label-mnist", "adalin+l2"), ("permuted-mnist", "adalin-tanh"), ("class-split-cifar100", "adalin")],
)
def test_a_resume_without_any_one_piece_of_the_state_is_noticed(benchmark: str, method: str, tmp_path: Path) -> None:
    one = define(benchmark, method, epochs=3)
    expected = train([one], tmp_path / "whole")[one]
    train([one], tmp_path / "stopped", **after_epochs(4))
    checkpoint = RunFolder(tmp_path / "stopped" / one.folder).load(pytest.fail)
    assert checkpoint is not None
    tensors, position = checkpoint.tensors, checkpoint.position
    assert position["task"] == 1
    assert position["step"] > 0

    def resumed(name: str, altered: Checkpoint) -> dict[str, Any]:
        shutil.copytree(tmp_path / "stopped", tmp_path / name)
        _checkpoint.save(tmp_path / name / one.folder, altered)
        return train([one], tmp_path / name)[one]

    assert resumed("nothing", checkpoint) == expected
    for name, tensor in tensors.items():
        altered = {**tensors, name: tensor + 1 if name == "outside_scale" else torch.zeros_like(tensor)}
        assert resumed(f"zero {name}", Checkpoint(altered, position)) != expected, name
        altered = {**tensors, name: tensor.clone()}
        flat = altered[name].view(-1).view(torch.uint8)
        flat[tensor.element_size() - 2] ^= 1  # of the first number
        assert resumed(f"flipped bit in {name}", Checkpoint(altered, position)) != expected, name
        with pytest.raises((KeyError, RuntimeError, AssertionError)):
            resumed(f"no {name}", Checkpoint({other: tensors[other] for other in tensors if other != name}, position))
    for change in ({"task": 0}, {"step": 0}, {"accuracy_sum": position["accuracy_sum"] + 1}):
        assert resumed(str(change), Checkpoint(tensors, position | change)) != expected, change


def test_rows_that_are_missing_before_a_checkpoint_are_noticed(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin")
    train([one], tmp_path, **after_epochs(4))
    (tmp_path / one.folder / "rows.jsonl").unlink()
    errors: list[str] = []
    train([one], tmp_path, report=lambda event, run, details: errors.append(details["message"]))
    assert errors == [
        f"{tmp_path / one.folder} has 0 rows, but its checkpoint comes after 1 tasks; "
        "restore rows.jsonl or delete the folder to start the run anew"
    ]


# signals

COMMAND = """
import json, multiprocessing, sys
from adalin.training import _execute, run

def tell(event, run, details):
    children = [child.pid for child in multiprocessing.active_children()]
    print(json.dumps([event, run and str(run.folder), details.get("message"), children]), flush=True)

if __name__ == "__main__":
    out, workers, tasks = sys.argv[1:]
    go = _execute._Pool.go
    _execute._Pool.go = lambda pool, stop: (tell("spawned", None, {}), go(pool, stop))
    try:
        run("random-label-mnist", ["adalin", "shrink-perturb"], [0], out=out, workers=int(workers), tasks=int(tasks),
            images=40, epochs=10, report=tell)
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
        event, _, message, self.children = json.loads(line)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_and_a_second_process_is_refused_before(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with command(tmp_path / "out", workers=1) as process:
        process.wait_for("row")
        monkeypatch.setattr(_execute, "LOCK_SECONDS", 0.1)
        with pytest.raises(RunFolderError) as error:
            assert_goes_on(tmp_path / "out", tmp_path / "whole")
        message = rf"another process \(pid {process.process.pid}\) is working on [^\n]*; wait for it or stop it"
        error.match(f"^{message}$")
        process.process.send_signal(number)
        assert process.finish() == ""
    assert process.process.returncode == 130
    assert process.events.count("stopped") == 1  # the second stack was not begun
    assert process.messages == []
    assert_goes_on(tmp_path / "out", tmp_path / "whole")


@pytest.mark.parametrize(
    ("number", "whom", "when"),
    [(signal.SIGINT, "group", "row"), (signal.SIGTERM, "parent", "row"), (signal.SIGINT, "group", "spawned")],
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
    monkeypatch.setattr(_execute, "LOCK_SECONDS", 60)
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
    messages: dict[Run, str] = {}

    def report(event: str, one: Run, details: dict[str, Any]) -> None:
        messages[one] = details["message"]

    _execute.execute(runs, out=tmp_path, workers=2, report=report, plugins=["there_is_no_such_plugin"])
    assert messages.keys() == set(runs)
    assert {message.split(" (")[0] for message in messages.values()} == {"its process died"}


def test_workers_save_and_end_when_whoever_listens_fails(tmp_path: Path) -> None:
    runs = [define("random-label-mnist", "adalin", images=40 + more, tasks=500) for more in range(2)]
    begun: list[Run] = []

    def report(event: str, one: Run, details: dict[str, Any]) -> None:
        if event == "row":
            begun.append(one)
            raise RuntimeError("nobody listens")

    with pytest.raises(RuntimeError, match="nobody listens"):
        _execute.execute(runs, out=tmp_path, workers=2, report=report)
    assert multiprocessing.active_children() == []
    assert outcome(tmp_path / begun[0].folder)["position"]["state"] == "stopped"


# damage and full disks


def test_a_damaged_checkpoint_costs_the_way_from_the_one_before(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin+l2")
    expected = train([one], tmp_path / "whole")[one]
    train([one], tmp_path / "out", **after_epochs(4), checkpoint_seconds=-1)
    *_, newest = sorted((tmp_path / "out" / one.folder).glob("checkpoint-*"))
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    events: list[tuple[str, Any]] = []
    again = train([one], tmp_path / "out", report=lambda event, run, details: events.append((event, details)))
    (warning,) = [details["message"] for event, details in events if event == "warning"]
    assert str(newest) in warning
    assert "trying the checkpoint before it" in warning
    assert again[one] == expected
    assert [event for event, _ in events].count("steps") == 3, "the epoch before the stop, and the two after it"


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


def test_what_cannot_be_written_ends_its_own_stack_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"images": 40, "epochs": 2, "tasks": 2}
    write, errors = _checkpoint.write_atomically, []

    def fail_for_one(path: Path, data: bytes, *, temporary: Path) -> None:
        if "shrink-perturb" in str(path) and path.parent.name == "seed-1":
            no_space()
        write(path, data, temporary=temporary)

    def report(event: str, one: Run, details: dict[str, Any]) -> None:
        if event == "error":
            errors.append((one.method, one.seed))

    methods, seeds = ["shrink-perturb", "adalin"], [0, 1]
    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint, "write_atomically", fail_for_one)
        with pytest.raises(RunFolderError, match="No space left on device"):
            run("random-label-mnist", methods, seeds, out=tmp_path / "out", report=report, **settings)
    assert errors == [("shrink-perturb", 0), ("shrink-perturb", 1)]
    results = run("random-label-mnist", methods, seeds, out=tmp_path / "out", **settings)
    expected = run("random-label-mnist", methods, seeds, out=tmp_path / "whole", **settings)
    for result, other in zip(results, expected, strict=True):
        assert outcome(tmp_path / "out" / result.run.folder) == outcome(tmp_path / "whole" / other.run.folder)
