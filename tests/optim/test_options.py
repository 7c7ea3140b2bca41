"""What options of optimisers can be, and schedules."""

import math

import pytest

from adalin.optim import SCHEDULES, SGD, Adam, AdamW, RMSprop

BAD = [
    (SGD, {"momentum": 1.0}, "momentum"),
    (SGD, {"nesterov": True}, "nesterov"),
    (Adam, {"beta2": -0.1}, "beta2"),
    (AdamW, {"eps": math.inf}, "eps"),
    (Adam, {"eps": 0.0}, "eps"),
    (RMSprop, {"alpha": math.nan}, "alpha"),
]


@pytest.mark.parametrize(("optimizer", "options", "named"), BAD)
def test_an_option_out_of_its_range_is_refused_by_name(optimizer, options, named) -> None:
    with pytest.raises(ValueError, match=f"option {named} of {optimizer.name} must be"):
        optimizer(**options)


@pytest.mark.parametrize("optimizer", [SGD, Adam, AdamW, RMSprop])
@pytest.mark.parametrize("option", ["lr", "weight_decay"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
def test_a_rate_that_is_no_number_or_negative_is_refused(optimizer, option, value) -> None:
    with pytest.raises(ValueError, match=f"option {option} of {optimizer.name} must be a number >"):
        optimizer(**{option: value})


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
