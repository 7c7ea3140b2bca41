"""convert(model, example=batch): a run decides what the code leaves open, and says what the code did not show."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import AdaLin, convert
from convert_models import assert_same, every_model, images, vectors

EQUAL = "outputs on the example are equal to the bit with alpha = 0"


@every_model
def test_an_example_confirms_what_the_code_says(make, inputs, expected) -> None:
    original = make()
    conversion = convert(original, inplace=False, init=0.0, example=inputs())
    assert [(site.base, site.width, site.dim) for site in conversion.sites] == expected
    assert conversion.notes == (EQUAL,)


def test_an_example_decides_the_axis() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.out = nn.Conv2d(3, 5, 3), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(F.relu(torch.einsum("bchw->bhwc", self.conv(x))))

    original = Last()
    conversion = convert(original, inplace=False, init=0.0, example=images())
    assert [(site.width, site.dim) for site in conversion.sites] == [(5, -1)]
    assert_same(original, conversion.model, images())


class Hard(nn.Module):
    """No stand-in gets through it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.act, self.mu = nn.Linear(4, 8), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        for row in range(len(x)):
            assert float(x[row].sum()) > -1e9
        h = self.act(self.a(x))
        h = h.clone()
        h = F.relu(self.b(h))
        return torch.tanh(self.mu(h))


def test_an_example_tells_hidden_activations_from_outputs() -> None:
    original = Hard()
    conversion = convert(original, inplace=False, init=0.0, example=vectors())
    assert sorted((site.name, site.width) for site in conversion.sites) == [("act", 8), ("relu", 6)]
    assert [name for name, _ in conversion.skipped] == ["tanh"]
    assert_same(original, conversion.model, vectors())


def test_without_an_example_the_report_says_what_is_not_verified() -> None:
    conversion = convert(Hard())
    assert conversion.notes == ("not verified without example=: act, relu",)
    assert str(conversion).endswith("not verified without example=: act, relu")


def test_a_layer_that_does_not_run_is_reported() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
            h = F.relu(self.a(x))
            if other is not None:
                h = h + F.gelu(self.b(other))
            return self.c(h)

    conversion = convert(Two(), inplace=False, example=vectors())
    assert conversion.notes == ("gelu did not run on the example", EQUAL)
    conversion = convert(Two(), example={"x": vectors(), "other": vectors()})
    assert conversion.notes == (EQUAL,)


def test_an_activation_that_only_the_run_shows_is_reported() -> None:
    table = {"act": [torch.relu]}

    class Indirect(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            for row in range(len(x)):
                assert float(x[row].sum()) > -1e9
            x = F.gelu(self.a(x))
            for function in table["act"]:
                x = function(x)
            return self.b(x)

    conversion = convert(Indirect(), example=vectors())
    assert [site.base for site in conversion.sites] == ["gelu"]
    assert conversion.skipped == (("relu", "relu, which only the run shows"),)


def test_an_example_that_does_not_run_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"^Sequential does not run on the example: mat1 and mat2 shapes"):
        convert(model, example=torch.randn(2, 3))
    assert isinstance(model[1], nn.ReLU)


def test_a_run_leaves_the_model_its_buffers_modes_and_random_state() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    state, random, batch = copy.deepcopy(model.state_dict()), torch.get_rng_state(), torch.ones(3, 4)
    convert(model, init=0.0, example=batch)
    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items() if name in state)
    assert torch.equal(torch.get_rng_state(), random)
    assert isinstance(model[2], AdaLin)


def test_equal_lines_of_the_report_are_folded() -> None:
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.PReLU()) for _ in range(5)]
    assert str(convert(nn.Sequential(*blocks, nn.Linear(8, 2)))) == (
        "site     base  width  alphas  axis\n"
        "5 x *.*  gelu      8       8    -1\n"
        "40 alphas added to 743 parameters (+5.38 %)\n"
        "left alone: 5 x *.* (PReLU, which has slopes of its own to learn and is AdaLin on ReLU)"
    )
