"""A run whose outputs are not finite ends before that step, with what it was, and disturbs nobody."""

from pathlib import Path

import pytest
from torch import Tensor

from adalin.engine import Gram, MLPStack, ModuleStack, NetworkSpec, Stack
from adalin.executors import engine_settings
from adalin.runs import RunFolder
from adalin.supervised import _loop
from adalin.supervised._build import Streams, make_network, order_of, steps_in
from notes import Notes
from tiny_runs import StreamRun, after_epochs, data_of, define, outcome, tensor_digest, train

# The first blow up at once. The others grow by -(1 - lr * strength) in every step, for a task and then some.
DIVERGING = [
    *(("random-label-mnist", method, {"lr": 1e4}) for method in ("adalin", "baseline", "no-gate")),
    *(("permuted-mnist", method, {"lr": 1e4}) for method in ("adalin", "shrink-perturb")),
    ("class-split-cifar100", "adalin", {"lr": 1e4}),
    *(
        (benchmark, "adalin+l2:strength=26", {"lr": 0.1, "tasks": 6})
        for benchmark in ("random-label-mnist", "permuted-mnist", "class-split-cifar100")
    ),
]


def step_by_step(one: StreamRun, steps: int) -> tuple[Stack, Tensor]:
    """A network after so many steps, each made by itself, and the inputs of the next."""
    stream = Streams(data_of(one.description.benchmark)).stream(one)
    model = make_network(one, stream, "init", 0)
    gram = Gram.of(stream.task(0).inputs.flatten(1)) if stream.same_inputs else None
    spec = NetworkSpec(model, one.seed, one.settings.lr, one.parsed_method.rules, gram)
    stack = (MLPStack if MLPStack.fits(model) else ModuleStack)([spec])
    per_task = steps_in(one, 0)
    for task in range(one.tasks):
        data, made = stream.task(task), 0
        stack.start_task(task, [data])
        for epoch in range(one.settings.epochs):
            for batch in order_of(one, one.settings.images, task, epoch).split(one.settings.batch_size):
                if task * per_task + made == steps:
                    return stack, data.inputs[batch]
                assert stack.train(batch[None], one.settings.batch_size, made).isfinite().all()
                made += 1
        stack.end_task()
    raise AssertionError("there are not so many steps")


def test_the_time_of_a_stack_is_shared_by_all_that_were_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(_loop.time, "monotonic", lambda: float(next(clock)))
    late = define("random-label-mnist", "adalin+l2:strength=26", lr=0.1, tasks=6)
    steady = define("random-label-mnist", "adalin", lr=0.1, tasks=6)
    train([late, steady], tmp_path, checkpoint_seconds=1e9)
    short, long = (RunFolder(tmp_path / one.folder).cost() for one in (late, steady))
    assert 2 < short < long
    assert short + long > 0.8 * next(clock)


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
        stack, inputs = step_by_step(one, position["task"] * steps_in(one, 0) + position["step"])
        state = stack.state(0)
        outputs = stack.model(0)(inputs)
    assert {name: tensor_digest(tensor.contiguous()) for name, tensor in state.items()} == {
        name: result[name] for name in state
    }
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
def test_neighbours_of_diverging_runs_are_not_disturbed(benchmark: str, tmp_path: Path) -> None:
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
