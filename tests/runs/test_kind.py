"""Which kind of runs a benchmark belongs to."""

import subprocess
import sys
from dataclasses import replace

import pytest

import adalin.executors  # noqa: F401, so that the kinds of runs are there
from adalin.runs import check_comparison, kind_of, kinds
from adalin.streams import get_benchmark, register_benchmark


def test_every_kind_has_its_own_benchmarks() -> None:
    assert kind_of("random-label-mnist") is kind_of("random-label-mnist-v1") is kinds.get("supervised")
    assert kind_of("sac") is kind_of("sac-Hopper-v4") is kinds.get("sac")


@pytest.mark.parametrize("first", ["adalin.rl", "adalin.supervised", "adalin.executors"])
def test_an_unknown_benchmark_is_told_with_those_there_are_whatever_was_imported_first(first: str) -> None:
    program = f"""
import {first}, adalin.executors
from adalin.runs import kind_of
try:
    kind_of("random-labels-mnist").define("random-labels-mnist", ["adalin"], [3])
except ValueError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith("unknown benchmark 'random-labels-mnist' (did you mean 'random-label-mnist'?); known: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", [None, 3, ["sac"]])
def test_what_is_no_name_is_told_in_one_line(name: object) -> None:
    with pytest.raises(ValueError, match=r"^a benchmark's name is a text, not [^\n]*$"):
        kind_of(name)


@pytest.mark.usefixtures("forget")
def test_a_benchmark_that_would_be_read_as_one_of_sac_is_refused() -> None:
    register_benchmark(replace(get_benchmark("random-label-mnist"), id="sac-like-v1"))
    for name in ("sac-like-v1", "sac-like"):
        with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared
            kind_of(name)
        expected = f"{name!r} can be read as a benchmark of sac and supervised: register it under another id"
        assert str(error.value) == expected


@pytest.mark.parametrize(
    ("methods", "seeds", "expected"),
    [
        ([], [3], "give at least one of methods"),
        (["adalin"], [], "give at least one of seeds"),
        (["adalin"], [3, 4, 3], "seeds are given twice: 3, 4, 3"),
        (["adalin", "adalin"], [3], "methods are given twice: adalin, adalin"),
        ("adalin", [3], "methods are a list, not 'adalin'"),
        (["adalin"], 3, "seeds are a list, not 3"),
        (["adalin"], None, "seeds are a list, not None"),
    ],
)
def test_what_is_no_comparison_is_told_in_one_line(methods: object, seeds: object, expected: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole text is compared
        check_comparison(methods, seeds)
    assert str(error.value) == expected
