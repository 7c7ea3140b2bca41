"""The paper's table of parameter overhead, by its counting and by ours."""

import pytest
from torch import nn

from adalin import convert


def mlp(*last):
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10), *last)


def cnn():
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 64), nn.ReLU(), nn.Linear(64, 100)),
    )


@pytest.mark.parametrize(
    ("model", "only", "parameters", "added", "percent"),
    [
        # The paper counts the MLP's output neurons too, and of the CNN only the filters.
        (mlp(nn.ReLU()), "*", 89_610, 210, 0.23),
        (cnn(), ["1", "4"], 39_796, 32, 0.08),
        # We convert the hidden layers, all of them.
        (mlp(), None, 89_610, 200, 0.22),
        (cnn(), None, 39_796, 96, 0.24),
    ],
)
def test_overhead(model, only, parameters, added, percent):
    conversion = convert(model, only=only)
    assert (conversion.parameters, conversion.added) == (parameters, added)
    assert round(conversion.overhead, 2) == percent
    assert sum(p.numel() for p in model.parameters()) == parameters + added
