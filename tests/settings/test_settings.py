"""Settings: documented, bounded, and the same after a way through JSON."""

import ast
import inspect
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adalin.executors  # noqa: F401, so that the kinds of runs are there
from adalin.engine import presets
from adalin.models import models
from adalin.runs import kinds, read_run
from adalin.settings import SACSettings, Settings, SupervisedSettings, specifications
from noun_phrases import is_noun_phrase

GIVEN: dict[type[Settings], dict[str, Any]] = {
    SupervisedSettings: {"tasks": 10, "epochs": 2, "batch_size": 16, "lr": 0.01, "images": 1_200},
    SACSettings: {},
}
EVERY = [(settings, name) for settings in GIVEN for name in specifications(settings)]
IDS = [f"{settings.__name__}.{name}" for settings, name in EVERY]

every_setting = pytest.mark.parametrize(("settings", "name"), EVERY, ids=IDS)


def make(settings: type[Settings], **changes: Any) -> Settings:
    return settings(**GIVEN[settings] | changes)


def with_bounds(*wanted: str) -> list[tuple[type[Settings], str]]:
    return [(settings, name) for settings, name in EVERY if any(specifications(settings)[name][one] for one in wanted)]


COUNTS = [(settings, name) for settings, name in EVERY if specifications(settings)[name]["least"] is not None]
NUMBERS = with_bounds("positive", "share")
CHOICES = with_bounds("choices")
FLAGS = with_bounds("flag")
TEXTS = [pair for pair in EVERY if pair not in (*COUNTS, *NUMBERS, *CHOICES, *FLAGS)]


def message(settings: type[Settings], **changes: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011, whoever calls compares the whole text
        make(settings, **changes)
    return str(error.value)


# documentation


def docs_of(settings: type[Settings]) -> dict[str, str]:
    """The text below each field."""
    (tree,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for entry, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(entry, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(entry.target)] = str(below.value.value)
    return found


@pytest.mark.parametrize("kind", kinds)
def test_the_settings_of_every_kind_are_tested_here(kind: str) -> None:
    assert kinds.get(kind).settings in GIVEN


@every_setting
def test_every_setting_is_documented_by_a_noun_phrase_that_stands_alone(settings: type[Settings], name: str) -> None:
    text = docs_of(settings)[name]
    assert is_noun_phrase(text), text


@pytest.mark.parametrize("text", ["Of the actor.", "Per task.", "Is cpu; or cuda.", "How often.", "By name."])
def test_fragments_are_noticed(text: str) -> None:
    assert not is_noun_phrase(text)


# bounds


def test_every_setting_has_bounds_of_one_sort() -> None:
    assert sorted([*COUNTS, *NUMBERS, *CHOICES, *FLAGS, *TEXTS], key=str) == sorted(EVERY, key=str)


@pytest.mark.parametrize("value", [-1, 1.0, 2.5, True, "3", None, math.nan, math.inf, 1e-320])
@pytest.mark.parametrize(("settings", "name"), COUNTS)
def test_a_count_must_be_a_whole_number(settings: type[Settings], name: str, value: object) -> None:
    spec = specifications(settings)[name]
    if value is None and spec["optional"]:
        assert getattr(make(settings, **{name: None}), name) is None
    else:
        expected = f"{name.replace('_', '-')} must be a whole number of at least {spec['least']}, not {value!r}"
        assert message(settings, **{name: value}) == expected


@pytest.mark.parametrize(("settings", "name"), COUNTS)
def test_a_count_has_bounds(settings: type[Settings], name: str) -> None:
    spec = specifications(settings)[name]
    least, most, must = spec["least"], spec["most"], f"{name.replace('_', '-')} must be a whole number of"
    assert message(settings, **{name: least - 1}) == f"{must} at least {least}, not {least - 1}"
    for above in (most + 1, 10**12, 10**400):
        assert message(settings, **{name: above}) == f"{must} at most {most:,}, not {above}"


def test_the_least_count_is_one_but_for_the_steps_before_learning() -> None:
    least = {name: specifications(settings)[name]["least"] for settings, name in COUNTS}
    assert {name for name, count in least.items() if count == 0} == {"learning_starts"}
    assert set(least.values()) == {0, 1}


@pytest.mark.parametrize("value", [0, 0.0, -0.01, -1, math.nan, math.inf, -math.inf, "0.1", True, None, 10**400, 1j])
@pytest.mark.parametrize(("settings", "name"), NUMBERS)
def test_a_number_must_be_positive_and_finite(settings: type[Settings], name: str, value: object) -> None:
    spec = specifications(settings)[name]
    if value is None and spec["optional"]:
        assert getattr(make(settings, **{name: None}), name) is None
    else:
        bound = "number above 0 and at most 1" if spec["share"] else "positive number"
        assert message(settings, **{name: value}) == f"{name.replace('_', '-')} must be a {bound}, not {value!r}"


@pytest.mark.parametrize(("settings", "name"), NUMBERS)
def test_a_number_must_be_one_that_float32_has(settings: type[Settings], name: str) -> None:
    is_share = specifications(settings)[name]["share"]
    option, most = name.replace("_", "-"), "1" if is_share else "3e+38"
    for value in (1e-320, 1e-40, *(() if is_share else (1e39, 1e300))):
        expected = f"{option} must be a number from 1.2e-38 to {most}, not {value!r}"
        assert message(settings, **{name: value}) == expected
        held = torch.tensor(value, dtype=torch.float32)
        assert held.isinf() or held < torch.finfo(torch.float32).tiny
    if is_share:
        assert message(settings, **{name: 1.1}) == f"{option} must be a number above 0 and at most 1, not 1.1"
    for value in (1.2e-38, 1.0, *(() if is_share else (3e38,))):
        assert getattr(make(settings, **{name: value}), name) == value


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 1e-320, 10**12, True, "3", "", None, ["unit"]])
@pytest.mark.parametrize(("settings", "name"), CHOICES)
def test_a_choice_must_be_one_that_there_is(settings: type[Settings], name: str, value: object) -> None:
    known = ", ".join(specifications(settings)[name]["choices"])
    assert message(settings, **{name: value}) == f"{name} must be one of {known}, not {value!r}"


@pytest.mark.parametrize("value", [-1, 0, 1, math.nan, math.inf, 1e-320, 10**12, "true", None])
@pytest.mark.parametrize(("settings", "name"), FLAGS)
def test_a_flag_must_be_true_or_false(settings: type[Settings], name: str, value: object) -> None:
    assert message(settings, **{name: value}) == f"{name.replace('_', '-')} must be true or false, not {value!r}"


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 1e-320, 10**12, True, ["plain"], b"plain", None])
@pytest.mark.parametrize(("settings", "name"), TEXTS)
def test_a_name_must_be_a_text(settings: type[Settings], name: str, value: object) -> None:
    if value is None and specifications(settings)[name]["optional"]:
        assert getattr(make(settings, **{name: None}), name) is None
    else:
        assert message(settings, **{name: value}) == f"{name.replace('_', '-')} must be a text, not {value!r}"


def test_numbers_of_numpy_become_pythons() -> None:
    made = make(SupervisedSettings, tasks=np.int64(3), lr=np.float64(0.5))
    assert (type(made.values()["tasks"]), type(made.values()["lr"])) == (int, float)
    assert made == make(SupervisedSettings, tasks=3, lr=0.5)


def test_an_array_is_no_number() -> None:
    assert message(SupervisedSettings, lr=np.ones(2)).startswith("lr must be a positive number, not array(")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="flavour"):
        make(SupervisedSettings, flavour="vanilla")


def test_rows_come_after_whole_periods() -> None:
    expected = "steps must be a multiple of 5,000, after which rows are made, not 7,000"
    assert message(SACSettings, steps=7_000) == expected
    assert make(SACSettings, steps=10_000).rows == 2


# there and back

numbers = st.floats(1.2e-38, 3e38)
shares = st.floats(1.2e-38, 1.0)


def counts(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most) | st.integers(least, min(most, 100))


def values_of(name: str, spec: Any) -> st.SearchStrategy[Any]:
    known = {"model": sorted(models()), "preset": sorted(presets)}
    if spec["least"] is not None:
        drawn: st.SearchStrategy[Any] = counts(spec["least"], spec["most"])
    elif spec["positive"] or spec["share"]:
        drawn = shares if spec["share"] else numbers
    elif spec["flag"]:
        drawn = st.booleans()
    elif spec["choices"] or name in known:
        drawn = st.sampled_from(known.get(name, spec["choices"]))
    else:
        drawn = st.text()
    return st.none() | drawn if spec["optional"] else drawn


@st.composite
def supervised_settings(draw: st.DrawFn) -> SupervisedSettings:
    specs = specifications(SupervisedSettings)
    return SupervisedSettings(**{name: draw(values_of(name, spec)) for name, spec in specs.items()})


@st.composite
def sac_settings(draw: st.DrawFn) -> SACSettings:
    specs = specifications(SACSettings)
    values = {name: draw(values_of(name, spec)) for name, spec in specs.items()}
    values["period"] = draw(st.integers(1, 10**4))
    values["steps"] = values["period"] * draw(st.integers(1, 10**4))
    return SACSettings(**values)


@given(supervised_settings())
def test_supervised_settings_come_back_from_what_defines_them(settings: SupervisedSettings) -> None:
    named = {"benchmark": "random-label-cifar10-v1", "method": "adalin", "seed": 3}
    run = read_run(json.loads(json.dumps({**named, **settings.defining(), "tasks": settings.tasks})))
    expected = settings
    if settings.model == "mlp":  # the benchmark's own is written in one way only
        expected = SupervisedSettings(**settings.values() | {"model": None})
    assert run.settings == expected
    assert read_run(json.loads(json.dumps(run.definition()))) == run


@given(sac_settings())
def test_sac_settings_come_back_from_what_defines_them(settings: SACSettings) -> None:
    named = {"benchmark": "sac-Hopper-v4", "method": "adalin", "seed": 3}
    run = read_run(json.loads(json.dumps({**named, **settings.defining(), "tasks": settings.rows})))
    assert run.settings == settings
    assert read_run(json.loads(json.dumps(run.definition()))) == run


@given(supervised_settings())
def test_settings_are_divided_into_what_defines_a_run_and_what_it_can_be_given_more_of(
    settings: SupervisedSettings,
) -> None:
    assert settings.values() == {**settings.defining(), "tasks": settings.tasks}
    assert settings.values() == {**settings.chosen(), "data": settings.data}
