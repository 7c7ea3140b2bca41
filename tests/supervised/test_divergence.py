"""A run whose outputs are not finite ends before that step, with what it was, and disturbs nobody."""

from pathlib import Path

import pytest
from torch import Tensor

from adalin.engine import Learner
from adalin.executors import engine_settings
from adalin.runs import RunFolder, Session
from adalin.supervised._build import Streams, order_of, steps_in
from adalin.supervised._loop import _make_learner
from notes import Notes
from tiny_runs import StreamRun, after_epochs, data_of, define, outcome, tensor_digest, train

# The first blow up at once. The others grow by -(1 - lr * strength) in every step, for a task and then some.
DIVERGING = [
    *(("random-label-mnist", method, {"lr": 1e4}) for method in ("adalin", "baseline", "no-gate")),
    *(("permuted-mnist", method, {"lr": 1e4}) for method in ("adalin", "shrink-perturb")),
    ("class-split-cifar100", "adalin", {"lr": 1e4}),
    ("random-label-mnist", "adam+no-gate", {"lr": 1e20}),
    *(
        (benchmark, "adalin+l2:strength=26", {"lr": 0.1, "tasks": 6})
        for benchmark in ("random-label-mnist", "permuted-mnist", "class-split-cifar100")
    ),
]


def step_by_step(one: StreamRun, steps: int, out: Path) -> tuple[Learner, Tensor]:
    """A network after so many steps, each made by itself, and the inputs of the next."""
    streams = Streams(data_of(one.description.benchmark))
    learner, per_task = _make_learner(one, streams, Session(out=out)), steps_in(one, 0)
    for task in range(one.tasks):
        data, made = streams.stream(one).task(task), 0
        learner.start_task(task, data, per_task)
        for epoch in range(one.settings.epochs):
            for batch in order_of(one, one.settings.images, task, epoch).split(one.settings.batch_size):
                if task * per_task + made == steps:
                    return learner, data.inputs[batch]
                assert not learner.train(batch, made).diverged
                made += 1
        learner.end_task(made)
    raise AssertionError("there are not so many steps")


@pytest.mark.parametrize(("benchmark", "method", "settings"), DIVERGING)
def test_a_diverged_run_is_kept_as_it_was_before_its_outputs_were_not_finite(
    benchmark: str, method: str, settings: dict[str, float], tmp_path: Path
) -> None:
    one = define(benchmark, method, **settings)
    notes = Notes()
    result = train([one], tmp_path, emit=notes)[one]
    assert notes.names[-1] == "diverged"
    position = result["position"]
    assert position["state"] == "diverged"
    assert len([name for name in result if name.startswith("row")]) == position["task"]
    assert position["task"] > 0 or "tasks" not in settings

    with engine_settings():
        learner, inputs = step_by_step(one, position["task"] * steps_in(one, 0) + position["step"], tmp_path)
        state = learner.state()
        outputs = learner.net.model(inputs)
    assert {name: tensor_digest(tensor) for name, tensor in state.items()} == {name: result[name] for name in state}
    assert all(tensor.isfinite().all() for tensor in state.values())
    assert not outputs.isfinite().all()


def test_a_diverged_run_stays_diverged(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin", lr=1e4)
    train([one], tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / one.folder).iterdir()}
    notes = Notes()
    train([one], tmp_path, emit=notes)
    assert notes.names[-1] == "diverged"
    assert "progress" not in notes.names
    assert {path: path.read_bytes() for path in (tmp_path / one.folder).iterdir()} == before


@pytest.mark.parametrize("benchmark", ["random-label-mnist", "permuted-mnist", "class-split-cifar100"])
def test_runs_after_diverging_ones_are_not_disturbed(benchmark: str, tmp_path: Path) -> None:
    healthy = [define(benchmark, method, seed) for method in ("adalin", "adalin+l2", "tanh") for seed in (0, 1)]
    ill = [define(benchmark, "adalin", seed, lr=1e4) for seed in (0, 1)]
    ill += [define(benchmark, "adalin+l2:strength=26", lr=0.1), define(benchmark, "baseline", lr=1e30)]
    together, alone = train(healthy + ill, tmp_path / "together"), train(healthy, tmp_path / "alone")
    for one in healthy:
        assert together[one] == alone[one], one
    for one in ill:
        assert together[one] == train([one], tmp_path / "ill")[one], one
        assert together[one]["position"]["state"] == "diverged"


def test_a_resume_inside_a_task_diverges_at_the_same_step(tmp_path: Path) -> None:
    one = define("random-label-mnist", "adalin+l2:strength=26", lr=0.1, tasks=6)
    whole = train([one], tmp_path / "whole")[one]
    for _ in range(6 * one.settings.epochs):
        train([one], tmp_path / "stopped", **after_epochs(1))
    assert outcome(tmp_path / "stopped" / one.folder) == whole


@pytest.mark.parametrize("lr", [1e30, 1e38])
def test_a_row_of_a_network_that_broke_in_its_last_step_is_written(lr: float, tmp_path: Path) -> None:
    settings = {"images": 16, "epochs": 1, "tasks": 1}
    broken, healthy = (define("random-label-mnist", "adalin", lr=one, **settings) for one in (lr, 0.01))
    result = train([broken, healthy], tmp_path / "together")
    assert result[healthy] == train([healthy], tmp_path / "alone")[healthy]
    (row,) = RunFolder(tmp_path / "together" / broken.folder).rows()
    assert row["loss"] is None
    assert row["online_accuracy"] is not None
