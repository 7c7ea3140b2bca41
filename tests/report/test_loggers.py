"""Rows that are sent elsewhere while training."""

import builtins
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import adalin
from adalin.executors import define
from adalin.report import open_loggers
from adalin.runs import Event, Progress, Result, Row

SETTINGS = {"data": "bundled", "tasks": 2, "epochs": 1, "images": 32}


def logged_run(names: list[str], out: Path, **settings: Any) -> list[Result]:
    with open_loggers(names, out) as loggers:

        def emit(event: Event) -> None:
            for logger in loggers:
                logger(event)

        settings = {**SETTINGS, **settings}
        return adalin.run("random-label-mnist", ["baseline", "adalin"], [3], out=out, emit=emit, **settings)


def plain(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if isinstance(value, int | float) and name != "task"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside tensorboard
def test_tensorboard_has_every_plain_number_of_every_task(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
        events = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / folder))
        events.Reload()
        return {name: [(one.step, one.value) for one in events.Scalars(name)] for name in events.Tags()["scalars"]}

    for tasks in (2, 3):  # a second command goes on
        for result in logged_run(["tensorboard"], tmp_path, tasks=tasks):
            written = read(result.run.folder)
            assert written.keys() == plain(result.rows[0]).keys()
            assert "srank" in written
            for name, points in written.items():
                assert [step for step, _ in points] == [*range(tasks)]
                assert [value for _, value in points] == pytest.approx([row[name] for row in result.rows], rel=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_shows_a_task_that_was_trained_again_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (run,) = define("random-label-mnist", ["baseline"], [3], **SETTINGS).runs
    for tasks in ([0, 1, 2], [1, 2]):  # a process is killed, and the last checkpoint was after the first task
        with open_loggers(["tensorboard"], tmp_path) as (logger,):
            for task in tasks:
                logger(Row(run, {"task": task, "online_accuracy": 0.5}))
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / run.folder))
    events.Reload()
    assert [one.step for one in events.Scalars("online_accuracy")] == [0, 1, 2]


class Wandb(SimpleNamespace):
    """A stand-in that notes what it is told."""

    def __init__(self) -> None:
        super().__init__(runs=[])

    def init(self, **options: Any) -> Any:
        run = SimpleNamespace(options=options, logged=[], finished=0)
        run.log = lambda numbers, step: run.logged.append((step, numbers))
        run.finish = lambda: setattr(run, "finished", run.finished + 1)
        self.runs.append(run)
        return run


def test_wandb_gets_one_run_each_with_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    results = logged_run(["wandb"], tmp_path)
    assert len(wandb.runs) == 2
    for result in results:
        (run,) = [one for one in wandb.runs if one.options["config"] == result.run.config]
        assert run.logged == [(row["task"], plain(row)) for row in result.rows]
        assert run.finished == 1
        assert run.options["name"] == f"{result.run.method} seed 3"
        assert run.options["dir"] == tmp_path
        assert (run.options["project"], run.options["resume"]) == ("adalin", "allow")
        assert "/" not in run.options["id"]
    assert len({run.options["id"] for run in wandb.runs}) == 2


def test_a_run_that_goes_on_is_the_same_run_at_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    logged_run(["wandb"], tmp_path)
    logged_run(["wandb"], tmp_path, tasks=3)
    first, second = ({run.options["id"]: run for run in half} for half in (wandb.runs[:2], wandb.runs[2:]))
    assert first.keys() == second.keys()
    assert all([step for step, _ in run.logged] == [2] for run in second.values())


def test_loggers_are_closed_when_training_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    (run,) = define("random-label-mnist", ["baseline"], [3], **SETTINGS).runs

    def fail() -> None:
        with open_loggers(["wandb"], tmp_path) as (logger,):
            logger(Progress(run, 3))
            logger(Row(run, {"task": 0, "online_accuracy": 0.5}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [one.finished for one in wandb.runs] == [1]


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_package_that_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = builtins.__import__

    def without(module: str, *arguments: Any) -> Any:
        if module in ("wandb", "tensorboard", "torch.utils.tensorboard"):
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return real(module, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(ValueError, match=rf"^--log {name} needs it: pip install {name}$"),
        open_loggers([name], tmp_path),
    ):
        pytest.fail("there is nothing to log to")
    assert list(tmp_path.iterdir()) == []
