"""A run is its definition: the same run has the same folder for good, and comes back from what is written of it."""

import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import adalin.executors  # noqa: F401, so that the kinds of runs are there
from adalin.runs import Position, Run, read_run

MNIST = "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16"
CIFAR10 = "32e5966899bde482c0ef7d076bf69809b4b1488c806f657a814cfca4646ec493"
CIFAR100 = "b41e29387b788506ced6a48cea527c65d6387e1598add60c84d6995abf0b21fa"
SIMULATOR = "gymnasium 1.4.0, mujoco 4.0.0"

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
    (
        {"method": "scratch+adalin-tanh:granularity=layer", "lr": 1},
        "random-label-mnist-v1/adalin-tanh_granularity_layer+scratch-914426d3/seed-3",
    ),
    (
        {
            "benchmark": "class-split-cifar100-v1",
            "method": "l2:strength=0.001",
            "seed": 11,
            "tasks": 1,
            "epochs": 2,
            "batch_size": 32,
            "lr": 0.5,
            "images": 100,
            "clip": 1.0,
            "model": "resnet18-narrow",
            "precision": "bfloat16",
            "steps": 7,
        },
        "class-split-cifar100-v1/l2_strength_0.001-3f0c4a5e/seed-11",
    ),
    (
        {
            "benchmark": "class-incremental-cifar100-v1",
            "method": "adalin+l2",
            "seed": 0,
            "batch_size": 90,
            "lr": 0.1,
            "images": 2250,
            "inputs": "kumar2023",
            "init": "he-normal",
            "preset": "dohare2024",
            "data": "0f" * 32,
        },
        "class-incremental-cifar100-v1/adalin+l2-c479d0bd/seed-0",
    ),
    # Runs in results/, as first trained.
    (
        {
            "benchmark": "permuted-mnist-v1",
            "method": "adalin-gelu:gate=none",
            "epochs": 1,
            "images": 10_000,
            "data": MNIST,
        },
        "permuted-mnist-v1/adalin-gelu_gate_none-730f4eb6/seed-3",
    ),
    ({"method": "prelu", "data": MNIST}, "random-label-mnist-v1/prelu-da807521/seed-3"),
    ({"inputs": "kumar2023", "data": MNIST}, "random-label-mnist-v1/adalin-5fcd8363/seed-3"),
    (
        {
            "benchmark": "random-label-cifar10-v1",
            "method": "adalin:granularity=network",
            "epochs": 700,
            "data": CIFAR10,
        },
        "random-label-cifar10-v1/adalin_granularity_network-c1552dce/seed-3",
    ),
    (
        {
            "benchmark": "shuffled-label-cifar10-v1",
            "method": "shrink-perturb",
            "epochs": 20,
            "images": 5_000,
            "data": CIFAR10,
        },
        "shuffled-label-cifar10-v1/shrink-perturb-0a5ec04d/seed-3",
    ),
    (
        {
            "benchmark": "class-split-cifar100-v1",
            "method": "crelu",
            "epochs": 20,
            "images": 2_500,
            "data": CIFAR100,
        },
        "class-split-cifar100-v1/crelu-2fba805f/seed-3",
    ),
    (
        {
            "benchmark": "class-incremental-cifar100-v1",
            "method": "fourier",
            "epochs": 1,
            "steps": 300,
            "images": 2_500,
            "batch_size": 50,
            "clip": 0.5,
            "model": "resnet18-narrow",
            "data": CIFAR100,
        },
        "class-incremental-cifar100-v1/fourier-11a51ec9/seed-3",
    ),
]

SAC: dict[str, Any] = {"benchmark": "sac-Hopper-v4", "method": "adalin", "seed": 5, "tasks": 20, "simulator": SIMULATOR}

GOLDEN_SAC: list[tuple[dict[str, Any], str]] = [
    ({"replay_ratio": 4}, "sac-Hopper-v4/adalin-e67a257e/seed-5"),
    ({"benchmark": "sac-HalfCheetah-v4", "method": "baseline"}, "sac-HalfCheetah-v4/baseline-ea4633fa/seed-5"),
    (
        {
            "benchmark": "sac-Pendulum-v1",
            "method": "crelu:match=half",
            "seed": 7,
            "tasks": 4,
            "period": 500,
            "replay_ratio": 8,
            "layer_norm": True,
            "batch_size": 64,
            "buffer_size": 1000,
            "learning_starts": 100,
            "gamma": 0.5,
            "tau": 1,
            "policy_lr": 1e-4,
            "q_lr": 2e-3,
            "policy_frequency": 1,
            "eval_episodes": 1,
            "simulator": "gymnasium 1.4.0",
        },
        "sac-Pendulum-v1/crelu_match_half-a9c994c0/seed-7",
    ),
    (
        {"benchmark": "sac-my/Env-v0", "method": "gelu", "seed": 0, "simulator": None},
        "sac-my/Env-v0/gelu-89e3856e/seed-0",
    ),
]

DEFINITIONS = [(SETTINGS | changes, folder) for changes, folder in GOLDEN]
DEFINITIONS += [(SAC | changes, folder) for changes, folder in GOLDEN_SAC]


def make(**changes: Any) -> Run[Any]:
    return read_run(SETTINGS | changes)


# folders


@pytest.mark.parametrize(("definition", "folder"), DEFINITIONS)
def test_the_folder_of_a_run_never_changes(definition: dict[str, Any], folder: str) -> None:
    assert read_run(definition).folder == Path(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": 11},
        {"benchmark": "random-label-mnist-v1"},
        {"lr": 1e-2},
        {"method": "adalin-relu"},
        {"method": "adalin:base=relu,gate=cosine"},
        {"model": "mlp"},
    ],
)
def test_a_folder_does_not_depend_on_the_number_of_tasks_or_on_how_things_are_written(changes: dict[str, Any]) -> None:
    assert make(**changes).folder == make().folder
    assert make(**changes).config == make().config


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
        {"steps": 15_000},
        {"clip": 1.0},
        {"model": "mlp-256"},
        {"preset": "dohare2024"},
        {"precision": "bfloat16"},
        {"data": "0" * 64},
    ],
)
def test_whatever_changes_the_numbers_changes_the_folder(changes: dict[str, Any]) -> None:
    assert make(**changes).folder != make().folder


def test_every_setting_that_defines_a_run_is_part_of_its_config() -> None:
    settings = make().settings
    assert set(make().config) == {"benchmark", "method", "seed"} | set(settings.defining())
    assert set(settings.values()) - set(settings.defining()) == {"tasks"}
    sac = read_run(SAC).settings
    assert set(sac.values()) - set(sac.defining()) == {"steps"}


def test_the_seeds_of_a_method_are_neighbours() -> None:
    assert make(seed=4).setting_folder == make(seed=3).setting_folder == make().folder.parent


def test_a_folder_has_no_characters_that_shells_or_systems_dislike() -> None:
    folder = make(method="adalin-tanh:granularity=layer,gate=linear+l2:strength=1e-3+scratch").folder
    assert set("/".join(folder.parts)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_+./")


# seeds


@pytest.mark.parametrize("seed", [-1, 1.0, 2.5, True, "3", None, math.nan])
def test_a_seed_must_be_a_whole_number(seed: object) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared
        make(seed=seed)
    assert str(error.value) == f"seed must be a whole number of at least 0, not {seed!r}"


def test_a_seed_may_be_zero() -> None:
    assert make(seed=0).seed == 0


# back and forth


@pytest.mark.parametrize("definition", [definition for definition, _ in DEFINITIONS])
def test_a_run_comes_back_from_its_definition_and_from_a_pickle(definition: dict[str, Any]) -> None:
    run = read_run(definition)
    assert run.total_steps > 0  # which caches what may not be picklable
    assert run.folder
    assert run.parsed_method
    for again in (read_run(run.definition()), pickle.loads(pickle.dumps(run))):
        assert again == run
        assert hash(again) == hash(run)
        assert again.folder == run.folder
        assert again.tasks == run.tasks == definition["tasks"]


def test_other_settings_make_another_run_and_leave_the_first_as_it_is() -> None:
    run = make()
    folder = run.folder
    other = run.with_settings(lr=0.5)
    assert (other.settings.lr, run.settings.lr) == (0.5, 0.01)
    assert other.folder != folder == run.folder
    assert run.with_settings(lr=0.01) == run


@pytest.mark.parametrize("missing", ["benchmark", "method", "seed", "tasks"])
@pytest.mark.parametrize("definition", [SETTINGS, SAC], ids=["supervised", "sac"])
def test_half_a_definition_is_none(definition: dict[str, Any], missing: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_run({name: value for name, value in definition.items() if name != missing})


@pytest.mark.parametrize("definition", [SETTINGS, SAC], ids=["supervised", "sac"])
def test_a_definition_with_a_setting_that_nobody_knows_is_none(definition: dict[str, Any]) -> None:
    message = "^it has a setting that this version of adalin does not know, 'flavour'$"
    with pytest.raises(ValueError, match=message):
        read_run(definition | {"flavour": "vanilla"})


# states


@pytest.mark.parametrize(
    ("position", "state"),
    [
        (Position(0, 0), "running"),
        (Position(2, 5, "stopped"), "stopped"),
        (Position(2, 5, "diverged"), "diverged"),
        (Position(3, 0, "done"), "done"),
        (Position(4, 5, "diverged"), "done"),  # in a task beyond those that are wanted
        (Position(2, 0, "done"), "stopped"),  # when two were wanted
    ],
)
def test_the_state_of_a_run_depends_on_how_many_tasks_are_wanted(position: Position, state: str) -> None:
    assert make(tasks=3).state_at(position) == state


def test_steps_are_counted_to_a_position_and_no_further_than_to_the_end() -> None:
    run = make(tasks=3, images=32, epochs=2)
    assert run.total_steps == 12
    assert run.steps_at(Position(1, 3)) == 7
    assert run.steps_at(Position(5, 0)) == 12
    sac = read_run(SAC | {"period": 100, "replay_ratio": 4, "learning_starts": 10})
    assert sac.total_steps == 20 * 100 * 4
    assert sac.steps_at(Position(2, 7)) == 207 * 4
