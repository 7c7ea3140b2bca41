"""What options of optimisers can be, and schedules."""

import math

import pytest

from adalin.optim import OPTIMIZERS, SCHEDULES, SGD, Adam

BAD = [
    ("sgd", {"momentum": 1.0}, "momentum"),
    ("sgd", {"nesterov": True}, "nesterov"),
    ("adam", {"beta2": -0.1}, "beta2"),
    ("adamw", {"eps": math.inf}, "eps"),
    ("adam", {"eps": 0.0}, "eps"),
    ("rmsprop", {"alpha": math.nan}, "alpha"),
]


@pytest.mark.parametrize(("name", "options", "named"), BAD)
def test_an_option_out_of_its_range_is_refused_by_name(name, options, named) -> None:
    with pytest.raises(ValueError, match=f"option {named} of {name} must be"):
        OPTIMIZERS.get(name)(**options)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("option", ["lr", "weight_decay"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
def test_a_rate_that_is_no_number_or_negative_is_refused(name, option, value) -> None:
    with pytest.raises(ValueError, match=f"option {option} of {name} must be a number >= 0"):
        OPTIMIZERS.get(name)(**{option: value})


def test_an_unknown_schedule_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"unknown schedule 'cosin'.*'cosine'"):
        Adam(schedule="cosin")


def test_schedules_begin_with_the_whole_learning_rate_and_only_sink() -> None:
    for name in SCHEDULES:
        factors = [SGD(schedule=name).lr_factor(epoch, 10) for epoch in range(10)]
        assert factors[0] == 1
        assert factors == sorted(factors, reverse=True)
        assert factors[-1] > 0
    assert SGD(schedule="linear").lr_factor(5, 10) == 0.5
    assert SGD(schedule="cosine").lr_factor(5, 10) == pytest.approx(0.5)
