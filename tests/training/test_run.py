"""What defines a run: mistakes are told before anything starts, and the same run always has the same folder."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adalin.training import Run, RunFolderError, define_runs, run
from synthetic_data import synthetic

SETTINGS: dict[str, Any] = {
    "benchmark": "random-label-mnist",
    "method": "adalin",
    "seed": 3,
    "tasks": 10,
    "epochs": 200,
    "batch_size": 16,
    "lr": 0.01,
    "images": 1_200,
}

GOLDEN: list[tuple[dict[str, Any], str]] = [
    ({}, "random-label-mnist-v1/adalin-b6579ccb/seed-3"),
    ({"method": "l2:strength=0.001", "seed": 0}, "random-label-mnist-v1/l2_strength_0.001-fa7a1436/seed-0"),
    (
        {"method": "adalin-tanh:granularity=layer+shrink-perturb", "inputs": "kumar2023"},
        "random-label-mnist-v1/adalin-tanh_granularity_layer+shrink-perturb-c1e5e262/seed-3",
    ),
    (
        {
            "benchmark": "class-split-cifar100",
            "method": "crelu:match=params",
            "epochs": 20,
            "images": 2500,
            "lr": 0.001,
            "batch_size": 32,
            "data": "0f" * 32,
        },
        "class-split-cifar100-v1/crelu_match_params-fb176d86/seed-3",
    ),
    ({"method": "baseline:base=leaky_relu"}, "random-label-mnist-v1/baseline_base_leaky_relu-90db8a77/seed-3"),
]


def make(**changes: Any) -> Run:
    return Run(**SETTINGS | changes)


def message(**changes: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011, whoever calls compares the whole text
        make(**changes)
    return str(error.value)


# mistakes


@pytest.mark.parametrize(
    ("name", "least"), [("seed", 0), ("tasks", 1), ("epochs", 1), ("batch_size", 1), ("images", 1)]
)
@pytest.mark.parametrize("value", [-1, 1.0, 2.5, True, "3", None, math.nan])
def test_a_count_must_be_a_whole_number(name: str, least: int, value: object) -> None:
    shown = name.replace("_", "-")
    assert message(**{name: value}) == f"{shown} must be a whole number of at least {least}, not {value!r}"


@pytest.mark.parametrize("name", ["tasks", "epochs", "batch_size", "images"])
def test_a_count_must_not_be_zero(name: str) -> None:
    assert message(**{name: 0}).endswith("must be a whole number of at least 1, not 0")


def test_a_seed_may_be_zero() -> None:
    assert make(seed=0).seed == 0


@pytest.mark.parametrize("lr", [0, 0.0, -0.01, math.nan, math.inf, -math.inf, "0.1", None])
def test_the_learning_rate_must_be_a_positive_number(lr: object) -> None:
    assert message(lr=lr) == f"lr must be a positive number, not {lr!r}"


def test_an_unknown_scaling_of_inputs_is_told_with_those_there_are() -> None:
    assert message(inputs="kumar") == "inputs must be one of unit, kumar2023, not 'kumar'"


def test_an_unknown_initialisation_is_told_with_those_there_are() -> None:
    assert message(init="he") == "init must be one of default, he-normal, not 'he'"


def test_more_tasks_than_a_benchmark_has_are_told_with_how_many_it_has() -> None:
    run = {"benchmark": "class-split-cifar100", "images": 2_500}
    assert message(**run, tasks=21) == "class-split-cifar100 has 20 tasks at most, not 21"
    assert make(**run, tasks=20).tasks == 20
    assert make(tasks=10_000).tasks == 10_000  # the others have as many as one likes


def test_an_unknown_benchmark_or_method_is_told_with_what_is_close() -> None:
    assert message(benchmark="random-labels-mnist").startswith(
        "unknown benchmark 'random-labels-mnist' (did you mean 'random-label-mnist'?); known: "
    )
    assert message(method="adaline").startswith("unknown method 'adaline' (did you mean 'adalin'?); known: ")


# settings


def test_a_run_has_the_benchmarks_settings_where_none_are_given() -> None:
    run = Run.define("random-label-mnist", "adalin", 3, None, epochs=2, lr=None)
    assert run == make(tasks=250, epochs=2)


def test_a_run_takes_all_images_there_are_if_a_benchmark_wants_more() -> None:
    data = synthetic("mnist")
    assert Run.define("random-label-mnist", "adalin", 3, data).images == len(data.train_images) == 40
    assert Run.define("random-label-mnist", "adalin", 3, data, images=40).images == 40


def test_more_images_than_the_data_has_are_told_if_somebody_asked_for_them() -> None:
    with pytest.raises(ValueError, match=r"^images=41, but a synthetic mnist has 40 for training$"):
        Run.define("random-label-mnist", "adalin", 3, synthetic("mnist"), images=41)


def test_a_run_is_of_the_data_it_was_defined_with() -> None:
    data = synthetic("mnist")
    assert Run.define("random-label-mnist", "adalin", 3, data).data == data.sha256


def test_a_run_has_as_many_steps_as_batches_the_last_one_smaller() -> None:
    assert make(images=33, batch_size=16, epochs=2).steps_in(0) == 6
    assert make(images=32, batch_size=16, epochs=2).steps_in(0) == 4


# comparisons


def test_every_method_is_run_with_every_seed() -> None:
    runs, data = define_runs("random-label-mnist", ["adalin", "tanh"], [3, 5], tasks=1, images=64)
    assert [(run.method, run.seed) for run in runs] == [("adalin", 3), ("adalin", 5), ("tanh", 3), ("tanh", 5)]
    assert data is not None
    assert {run.data for run in runs} == {data.sha256}


@pytest.mark.parametrize(
    ("methods", "seeds", "expected"),
    [
        ([], [3], "give at least one of methods"),
        (["adalin"], [], "give at least one of seeds"),
        (["adalin"], [3, 4, 3], "seeds are given twice: 3, 4, 3"),
        (["adalin", "adalin"], [3], "methods are given twice: adalin, adalin"),
        (["relu", "baseline"], [3], "some methods are the same, written differently: relu, baseline"),
        (
            ["adalin-tanh+l2", "l2:strength=1e-2+adalin:base=tanh"],
            [3],
            "some methods are the same, written differently: adalin-tanh+l2, l2:strength=1e-2+adalin:base=tanh",
        ),
    ],
)
def test_the_same_run_twice_or_none_at_all_is_refused(methods: list[str], seeds: list[int], expected: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared
        define_runs("random-label-mnist", methods, seeds, images=64)
    assert str(error.value) == expected


def test_a_mistake_in_any_method_is_told_before_the_data_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^unknown method 'adaline'"):
        define_runs("random-label-cifar10", ["adalin", "adaline"], [3], data=tmp_path / "nothing")


# folders


@pytest.mark.parametrize(("changes", "folder"), GOLDEN)
def test_the_folder_of_a_run_never_changes(changes: dict[str, Any], folder: str) -> None:
    assert make(**changes).folder == Path(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": 11},
        {"benchmark": "random-label-mnist-v1"},
        {"lr": 1e-2},
        {"method": "adalin-relu"},
        {"method": "adalin:base=relu,gate=cosine"},
    ],
)
def test_a_folder_does_not_depend_on_the_number_of_tasks_or_on_how_things_are_written(changes: dict[str, Any]) -> None:
    assert make(**changes).folder == make().folder
    assert make(**changes).config() == make().config()


@pytest.mark.parametrize(
    "changes",
    [
        {"benchmark": "permuted-mnist"},
        {"method": "adalin-tanh"},
        {"method": "adalin+l2"},
        {"method": "adalin:granularity=layer"},
        {"seed": 4},
        {"epochs": 199},
        {"batch_size": 32},
        {"lr": 0.001},
        {"images": 1_199},
        {"inputs": "kumar2023"},
        {"init": "he-normal"},
        {"data": "0" * 64},
    ],
)
def test_whatever_changes_the_numbers_changes_the_folder(changes: dict[str, Any]) -> None:
    assert make(**changes).folder != make().folder


def test_the_seeds_of_a_method_are_neighbours() -> None:
    assert make(seed=4).folder.parent == make(seed=3).folder.parent


def test_a_folder_has_no_characters_that_shells_or_systems_dislike() -> None:
    folder = make(method="adalin-tanh:granularity=layer,gate=linear+l2:strength=1e-3+scratch").folder
    assert set("/".join(folder.parts)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_+./")


@pytest.mark.parametrize(
    ("position", "state"),
    [
        ({"task": 0, "step": 0}, "running"),
        ({"task": 2, "step": 5, "state": "stopped"}, "stopped"),
        ({"task": 2, "step": 5, "state": "diverged"}, "diverged"),
        ({"task": 3, "step": 0, "state": "done"}, "done"),
        ({"task": 4, "step": 5, "state": "diverged"}, "done"),  # in a task beyond those that are wanted
        ({"task": 2, "step": 0, "state": "done"}, "stopped"),  # when two were wanted
    ],
)
def test_the_state_of_a_run_depends_on_how_many_tasks_are_wanted(position: dict[str, Any], state: str) -> None:
    assert Run.define("random-label-mnist", "adalin", 3, None, tasks=3).state_at(position) == state


def test_a_run_comes_back_from_its_config() -> None:
    run = make(method="scratch+adalin-gelu:gate=linear", inputs="kumar2023", init="he-normal", data="0" * 64)
    assert Run(**run.config(), tasks=run.tasks) == run
    assert Run(**run.config(), tasks=run.tasks).folder == run.folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "baseline"}, r"methods are a list of texts, \['baseline'\], not a text"),
        ({"epoch": 3}, r"there is no setting 'epoch' \(did you mean 'epochs'\?\)"),
        ({"workers": 0}, "workers must be at least 1, not 0"),
        ({"seeds": [0.5]}, "seed must be a whole number of at least 0, not 0.5"),
    ],
)
def test_mistakes_in_a_call_are_told_in_one_line(arguments, message, tmp_path):
    call = {"methods": ["baseline"], "seeds": [3], "out": tmp_path / "out", "tasks": 1, "epochs": 1, "images": 16}
    with pytest.raises(ValueError, match=message):
        run("random-label-mnist", **call | arguments)
    assert not (tmp_path / "out").exists()


def test_neither_the_callers_dtype_nor_its_random_state_matters_or_moves(tmp_path):
    settings = {"tasks": 1, "epochs": 1, "images": 16}
    plain = run("random-label-mnist", ["adalin"], [3], out=tmp_path / "plain", **settings)
    torch.set_default_dtype(torch.float64)
    try:
        state = torch.get_rng_state()
        other = run("random-label-mnist", ["adalin"], np.array([3]), out=tmp_path / "other", **settings)
        assert torch.get_rng_state().equal(state)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert [one.rows for one in plain] == [one.rows for one in other]


def test_a_run_from_before_a_setting_was_added_goes_on(tmp_path):
    settings = {"epochs": 1, "images": 16}
    (short,) = run("random-label-mnist", ["adalin"], [3], out=tmp_path, tasks=1, **settings)
    path = tmp_path / short.run.folder / "config.json"
    config = json.loads(path.read_text())
    for name in ("steps", "clip", "model", "preset", "precision", "inputs"):
        del config[name]
    path.write_text(json.dumps(config))
    (long,) = run("random-label-mnist", ["adalin"], [3], out=tmp_path, tasks=2, **settings)
    assert (long.state, long.rows[0]) == ("done", short.rows[0])
    config["inputs"] = "kumar2023"
    path.write_text(json.dumps(config))
    with pytest.raises(RunFolderError, match='holds a run with inputs = "kumar2023", not "unit"'):
        run("random-label-mnist", ["adalin"], [3], out=tmp_path, tasks=3, **settings)


def test_where_tasks_grow_a_falling_accuracy_is_no_loss_of_plasticity():
    assert Run.define("class-split-cifar100", "adalin", 3, None).shows_plasticity
    assert not Run.define("class-incremental-cifar100", "adalin", 3, None).shows_plasticity
