"""The definition of runs on streams: settings come from the benchmark, mistakes are told before anything starts."""

from pathlib import Path
from typing import Any

import pytest
import torch

from adalin._hardware import Hardware
from adalin.runs import Comparison, Run, kinds, read_run
from adalin.supervised._build import steps_in
from synthetic_data import synthetic
from tiny_runs import loaded, noise_for_data, random_data

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


def make(**changes: Any) -> Run[Any]:
    return read_run(SETTINGS | changes)


def message(**changes: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011, whoever calls compares the whole text
        make(**changes)
    return str(error.value)


def define_all(benchmark: str, methods: list[str], seeds: list[int], **options: Any) -> Comparison:
    return kinds.get("supervised").define(benchmark, methods, seeds, **options)


def define_on(data: Any, benchmark: str = "random-label-mnist", **settings: Any) -> Run[Any]:
    """A run as it is defined where this is the data set."""
    with loaded(data):
        (run,) = define_all(benchmark, ["adalin"], [3], **settings).runs
    return run


# mistakes


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
    data = synthetic("mnist")
    run = define_on(data, epochs=2, lr=None)
    assert run == make(tasks=250, epochs=2, images=40, data=data.sha256)


def test_a_run_takes_all_images_there_are_if_a_benchmark_wants_more() -> None:
    data = synthetic("mnist")
    assert define_on(data).settings.images == len(data.train_images) == 40
    assert define_on(data, images=40).settings.images == 40


def test_more_images_than_the_data_has_are_told_if_somebody_asked_for_them() -> None:
    with pytest.raises(ValueError, match=r"^images=41, but a synthetic mnist has 40 for training$"):
        define_on(synthetic("mnist"), images=41)


def test_a_run_is_of_the_data_it_was_defined_with() -> None:
    data = synthetic("mnist")
    assert define_on(data).settings.data == data.sha256


def test_a_run_has_as_many_steps_as_batches_the_last_one_smaller() -> None:
    assert steps_in(make(images=33, batch_size=16, epochs=2), 0) == 6
    assert steps_in(make(images=32, batch_size=16, epochs=2), 0) == 4


def test_dohares_settings_are_taken_unless_others_are_given() -> None:
    benchmark, data = "class-incremental-cifar100", random_data("cifar100", (3, 8, 8), 100, per_class=451)
    whole = define_on(data, benchmark, preset="dohare2024")
    taken = whole.settings
    settings = (taken.epochs, taken.lr, taken.batch_size, taken.images, taken.steps, taken.clip)
    assert settings == (200, 0.1, 90, 2_250, None, None)
    assert steps_in(whole, 1) == 200 * 50
    short = define_on(data, benchmark, preset="dohare2024", epochs=3, lr=0.5, images=5).settings
    assert (short.epochs, short.lr, short.images) == (3, 0.5, 5)


def test_settings_that_do_not_fit_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    noise_for_data(monkeypatch)
    for settings, message in (
        ({"preset": "dohare"}, r"^unknown preset 'dohare' \(did you mean 'dohare2024'\?\); known: plain, dohare2024$"),
        ({"precision": "float16"}, "^precision must be one of float32, bfloat16, not 'float16'$"),
        ({"clip": -1}, "^clip must be a positive number, not -1$"),
        ({"steps": 0}, "^steps must be a whole number of at least 1, not 0$"),
        ({"model": "resnet"}, "^unknown model 'resnet'"),
        ({"preset": "dohare2024", "images": 25}, "^preset dohare2024 needs images for validation"),
        (
            {"methods": ["crelu:match=half"], "images": 10},
            "^a resnet18 with crelu has half the channels in its blocks already",
        ),
        ({"steps": 3, "epochs": 4}, "^give epochs or steps, not both$"),
    ):
        with pytest.raises(ValueError, match=message):
            define_all("class-incremental-cifar100", **{"methods": ["adalin"], "seeds": [3]} | settings)
    with pytest.raises(ValueError, match=r"^device is cpu, cuda or cuda:N, not 'gpu'$"):
        Hardware("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"^there is no CUDA device here; leave out --device$"):
            Hardware("cuda")


# comparisons


def test_every_method_is_run_with_every_seed() -> None:
    comparison = define_all("random-label-mnist", ["adalin", "tanh"], [3, 5], tasks=1, images=64)
    runs, data = comparison.runs, comparison.dataset
    assert [(run.method, run.seed) for run in runs] == [("adalin", 3), ("adalin", 5), ("tanh", 3), ("tanh", 5)]
    assert data is not None
    assert {run.settings.data for run in runs} == {data.sha256}


@pytest.mark.parametrize(
    ("methods", "same"),
    [
        (["relu", "baseline"], "baseline"),
        (["tanh", "adalin-tanh+l2", "l2:strength=1e-2+adalin:base=tanh"], "adalin-tanh+l2"),
    ],
)
def test_the_same_method_written_in_two_ways_is_refused(methods: list[str], same: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared
        define_all("random-label-mnist", methods, [3], images=64)
    assert str(error.value) == f"some methods are the same, written differently: {same} is there twice"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"methods": ["adalin", "adaline"]}, r"^unknown method 'adaline'"),
        ({"seeds": [-1]}, r"^seed must be a whole number of at least 0, not -1$"),
        ({"tasks": 0}, r"^tasks must be a whole number of at least 1, not 0$"),
        ({"model": "mpl"}, r"^unknown model 'mpl'"),
        ({"epoch": 3}, r"^there is no setting 'epoch' \(did you mean 'epochs'\?\)"),
    ],
)
def test_a_mistake_is_told_before_the_data_is_looked_for(
    arguments: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    call = {"methods": ["adalin"], "seeds": [3], "data": tmp_path / "nothing"}
    with pytest.raises(ValueError, match=expected):
        define_all("random-label-cifar10", **call | arguments)


def test_where_tasks_grow_a_falling_accuracy_is_no_loss_of_plasticity() -> None:
    split = make(benchmark="class-split-cifar100", images=2_500)
    assert split.description.shows_plasticity
    assert not make(benchmark="class-incremental-cifar100", images=2_500).description.shows_plasticity
