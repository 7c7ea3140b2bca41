"""Benchmarks by id and by name."""

from dataclasses import replace

import pytest

from adalin.data import datasets
from adalin.models import models
from adalin.streams import Benchmark, benchmarks, get_benchmark, register_benchmark

KNOWN = (
    "permuted-mnist, random-label-mnist, random-label-cifar10, shuffled-label-cifar10, class-split-cifar100, "
    "class-incremental-cifar100; if a plugin brings it, name that with --plugin"
)


pytestmark = pytest.mark.usefixtures("forget")
SETTINGS = ("tasks", "epochs", "images", "batch_size", "lr")


@pytest.mark.parametrize(
    ("id", "settings"),
    [
        ("permuted-mnist-v1", ("mnist", "mlp", 400, 1, 10_000, 16, 0.01, None)),
        ("random-label-mnist-v1", ("mnist", "mlp", 250, 200, 1_200, 16, 0.01, None)),
        ("random-label-cifar10-v1", ("cifar10", "mlp", 100, 700, 1_200, 16, 0.01, None)),
        ("shuffled-label-cifar10-v1", ("cifar10", "mlp", 100, 20, 5_000, 16, 0.01, None)),
        ("class-split-cifar100-v1", ("cifar100", "cnn", 20, 20, 2_500, 16, 0.01, 20)),
    ],
)
def test_a_benchmark_has_the_settings_of_the_papers_table(id: str, settings: tuple[object, ...]) -> None:
    benchmark = get_benchmark(id)
    values = (getattr(benchmark.settings, name) for name in SETTINGS)
    assert (benchmark.dataset, benchmark.model, *values, benchmark.max_tasks) == settings


@pytest.mark.parametrize("id", list(benchmarks()))
def test_a_benchmark_names_what_exists(id: str) -> None:
    benchmark = get_benchmark(id)
    assert benchmark.model in models()
    assert benchmark.dataset is None or benchmark.dataset in datasets()
    assert benchmark.summary


def test_an_id_stands_for_itself_and_a_name_for_its_newest_version() -> None:
    first = get_benchmark("permuted-mnist")
    tenth, second = (register_benchmark(replace(first, id=f"permuted-mnist-v{version}")) for version in (10, 2))
    assert get_benchmark("permuted-mnist") is tenth
    assert get_benchmark("permuted-mnist-v2") is second
    assert get_benchmark("permuted-mnist-v1") is first
    assert first.name == second.name == "permuted-mnist"


def test_a_name_may_itself_look_like_a_version() -> None:
    own = register_benchmark(replace(get_benchmark("permuted-mnist"), id="cart-v2-v1"))
    assert own.name == "cart-v2"
    assert get_benchmark("cart-v2") is own


@pytest.mark.parametrize("id", ["permuted", "permuted-mnist-1", "permuted-v", "permuted-vx", "-v1", ""])
def test_an_id_without_a_version_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match=r"^a benchmark's id ends in its version, such as .*-v1$"):
        replace(get_benchmark("permuted-mnist"), id=id)


def test_a_second_benchmark_with_the_same_id_is_refused_and_the_first_stays() -> None:
    first = get_benchmark("permuted-mnist")
    with pytest.raises(ValueError, match=r"^a benchmark named 'permuted-mnist-v1' is registered already$"):
        register_benchmark(replace(first, grows=True))
    assert get_benchmark("permuted-mnist") is first


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("permuted_mnist", " (did you mean 'permuted-mnist'?)"),
        ("Random-Label-CIFAR", " (did you mean 'random-label-cifar10'?)"),
        ("permuted-mnist-v9", " (did you mean 'permuted-mnist'?)"),
        ("atari", ""),
    ],
)
def test_an_unknown_benchmark_is_told_in_one_line_with_what_is_close(asked: str, hint: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared
        get_benchmark(asked)
    assert str(error.value) == f"unknown benchmark {asked!r}{hint}; known: {KNOWN}"


def test_benchmarks_cannot_be_changed_behind_the_registry() -> None:
    with pytest.raises(TypeError):
        benchmarks()["own-v1"] = get_benchmark("permuted-mnist")  # type: ignore[index]
    assert isinstance(get_benchmark("permuted-mnist"), Benchmark)
