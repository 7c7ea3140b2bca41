"""Activations that work in place on a tensor with more than one reader."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import convert
from convert_models import assert_same, vectors

IN_PLACE = "works in place on a tensor that others may read: set inplace=False first"


def test_an_in_place_activation_on_the_callers_tensor_is_left_alone() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.out = nn.Linear(4, 4), nn.Linear(4, 2)
            self.block = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.fc(x)
            return self.out(x + self.block(x))

    original = Residual()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.name for site in conversion.sites] == ["block.2"]
    assert conversion.skipped == (
        ("block.0", "works in place on a tensor that others may read: set inplace=False first"),
    )
    assert_same(original, conversion.model, vectors())


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(4, 4), nn.Linear(4, 2)
        self.block = nn.Sequential(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return self.out(self.block(h) + h)


class Second(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + self.act(b)


class SecondArgument(Nested):
    def __init__(self) -> None:
        super().__init__()
        self.block = Second()

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return self.out(self.block(x, h) + h)


class Alias(Nested):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return self.out(F.relu_(self.block(h)) + h + torch.tanh(h))


class View(Nested):
    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        F.relu_(h[:, :2])
        return self.out(h + torch.tanh(h))


@pytest.mark.parametrize("module", [Nested, SecondArgument, Alias, View])
def test_in_place_activations_on_tensors_with_two_names_are_left_alone(module) -> None:
    model = nn.Sequential(module(), nn.ReLU(), nn.Linear(2, 2))
    conversion = convert(model, inplace=False, init=0.0)
    assert "works in place on a tensor that others may read: set inplace=False first" in {
        reason for _, reason in conversion.skipped
    }
    assert_same(model, conversion.model, vectors())
