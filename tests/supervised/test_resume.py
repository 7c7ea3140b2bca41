"""A run that was stopped, by whatever, goes on to the same end; and the comparison would notice if it did not."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from adalin import run
from adalin.runs import Checkpoint, RunFolder, RunFolderError
from adalin.supervised._build import steps_in
from notes import Notes
from tiny_runs import BENCHMARKS, after_epochs, after_steps, define, outcome, train

METHODS = [
    *("adalin+l2", "shrink-perturb", "scratch", "adalin-tanh:granularity=network", "fourier"),
    *("sgd:momentum=0.9+adalin", "adam+adalin+l2", "adamw:schedule=cosine+crelu", "rmsprop:momentum=0.5+scratch"),
]


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
    runs = [define(benchmark, method, **settings) for method in ("adalin", "adam+crelu+scratch")]
    expected = train(runs, tmp_path / "whole")
    monkeypatch.setattr("adalin.engine._learner.FIRST_CALL", 1)
    monkeypatch.setattr("adalin.engine._learner.CALL_SECONDS", 0.0)
    one = runs[0]
    assert train(runs, tmp_path / "pieces") == expected
    for count in range(1, one.total_steps):
        stopped = train([one], tmp_path / str(count), **after_steps(count))[one]["position"]
        assert one.steps_of(stopped["task"]) + stopped["step"] == count
        assert train([one], tmp_path / str(count))[one] == expected[one], count


@pytest.mark.parametrize("benchmark", [name for name in BENCHMARKS if not name.startswith("class-incremental")])
def test_a_stop_after_any_epoch_changes_nothing(benchmark: str, tmp_path: Path) -> None:
    one = define(benchmark, "adalin+l2")
    expected = train([one], tmp_path / "whole")[one]
    epochs = one.settings.epochs
    for count in range(1, epochs * one.tasks):
        position = train([one], tmp_path / str(count), **after_epochs(count))[one]["position"]
        steps = count % epochs * steps_in(one, 0) // epochs
        assert (position["task"], position["step"], position["state"]) == (count // epochs, steps, "stopped")
        assert train([one], tmp_path / str(count))[one] == expected, count


@pytest.mark.parametrize("benchmark", ["random-label-mnist", "class-split-cifar100"])
@pytest.mark.parametrize("method", METHODS)
def test_a_stop_after_every_epoch_changes_nothing(benchmark: str, method: str, tmp_path: Path) -> None:
    one = define(benchmark, method)
    for _ in range(one.settings.epochs * one.tasks):
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
    notes = Notes()
    assert train([short], tmp_path, emit=notes)[short] == before
    assert notes.names[-1] == "done"
    assert "progress" not in notes.names


# The comparison has teeth: what a checkpoint holds is needed, all of it.


@pytest.mark.parametrize(
    ("benchmark", "method"),
    [
        ("random-label-mnist", "adalin+l2"),
        ("permuted-mnist", "sgd:momentum=0.9+adalin-tanh"),
        ("class-split-cifar100", "adam+adalin"),
    ],
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
        RunFolder(tmp_path / name / one.folder).save(altered)
        return train([one], tmp_path / name)[one]

    assert resumed("nothing", checkpoint) == expected
    # Where products of images stand for the first weights, these are saved for people: resuming makes them anew.
    derived = {"network.1.weight"} if "network.gram.start" in tensors else set()
    for name, tensor in tensors.items():
        if name in derived:
            continue
        altered = {**tensors, name: torch.zeros_like(tensor)}
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
    with pytest.raises(RunFolderError) as error:
        train([one], tmp_path)
    assert str(error.value) == (
        f"{tmp_path / one.folder} has 0 rows, but its checkpoint comes after 1 tasks; "
        "restore rows.jsonl or delete the folder to start the run anew"
    )


# damage


def test_a_damaged_checkpoint_costs_the_way_from_the_one_before(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin+l2")
    expected = train([one], tmp_path / "whole")[one]
    train([one], tmp_path / "out", **after_epochs(4), checkpoint_seconds=-1)
    *_, newest = sorted((tmp_path / "out" / one.folder).glob("checkpoint-*"))
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    notes = Notes()
    again = train([one], tmp_path / "out", emit=notes)
    (warning,) = notes.messages("warning")
    assert str(newest) in warning
    assert "trying the checkpoint before it" in warning
    assert again[one] == expected
    assert sum(notes.steps("progress")) == 9, "the epoch before the stop, and the two after it"


@pytest.mark.parametrize(("method", "seed"), [("adalin", 1), ("baseline", 0)])
def test_a_checkpoint_of_another_run_is_refused_and_nothing_is_trained(method: str, seed: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"images": 40, "epochs": 2, "data": "bundled"}
    (result,) = run("random-label-mnist", ["adalin"], [0], out=tmp_path, tasks=1, **settings)
    (other,) = run("random-label-mnist", [method], [seed], out=tmp_path, tasks=1, **settings)
    folder = tmp_path / result.run.folder
    (newest,) = folder.glob("checkpoint-*")
    shutil.move(newest, tmp_path)
    for path in (tmp_path / other.run.folder).glob("checkpoint-*"):
        shutil.copy(path, folder)
    rows = (folder / "rows.jsonl").read_bytes()
    with pytest.raises(
        RunFolderError, match=r"^checkpoint .* is that of another run, or config\.json was changed; put"
    ):
        run("random-label-mnist", ["adalin"], [0], out=tmp_path, tasks=3, **settings)
    assert (folder / "rows.jsonl").read_bytes() == rows
    for path in folder.glob("checkpoint-*"):
        path.unlink()
    shutil.move(tmp_path / newest.name, folder)
    run("random-label-mnist", ["adalin"], [0], out=tmp_path, tasks=3, **settings)
    (whole,) = run("random-label-mnist", ["adalin"], [0], out=tmp_path / "whole", tasks=3, **settings)
    assert outcome(folder) == outcome(tmp_path / "whole" / whole.run.folder)
