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


class Shortcut(nn.Module):
    """The shortcut is taken before the activation and read after it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.short, self.relu, self.b = nn.Linear(4, 4), nn.Identity(), nn.ReLU(inplace=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        i = self.short(h)
        h = self.relu(h)
        return self.b(h + i)


class EmptyShortcut(Shortcut):
    def __init__(self) -> None:
        super().__init__()
        self.short = nn.Sequential()


class DropPath(nn.Module):
    """A class of one's own, which cannot be traced and in eval mode returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand(len(x), 1) < 0.5) if self.training else x


class DropPathShortcut(Shortcut):
    def __init__(self) -> None:
        super().__init__()
        self.short = DropPath()


class EarlierView(Shortcut):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        v = h[:, :2]
        return self.b(self.relu(h)) + v


class EarlierTranspose(Shortcut):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        v = h.T
        before = v.sum()
        return self.b(self.relu(h)) + v.T[:, :2] + before


class SameTensor(Shortcut):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        i = h.add_(1)
        return self.b(self.relu(i) + h)


class InATuple(Shortcut):
    def __init__(self) -> None:
        super().__init__()
        self.relu = InATuple.First()

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU(inplace=True)

        def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
            return self.act(pair[0])

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.b(self.relu((h, x)) + h)


class OwnState(Shortcut):
    state: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x) + self.relu(self.state))


EARLIER = [Shortcut, EmptyShortcut, DropPathShortcut, EarlierView, EarlierTranspose, SameTensor, InATuple, OwnState]


@pytest.mark.parametrize("module", [Nested, SecondArgument, Alias, View, *EARLIER])
def test_in_place_activations_on_tensors_with_two_names_are_left_alone(module) -> None:
    model = nn.Sequential(module(), nn.ReLU(), nn.Linear(2, 2))
    conversion = convert(model, inplace=False, init=0.0)
    assert "works in place on a tensor that others may read: set inplace=False first" in {
        reason for _, reason in conversion.skipped
    }
    assert_same(model, conversion.model, vectors())


def test_a_traced_block_that_returns_a_new_tensor_is_no_alias() -> None:
    class Projected(Shortcut):
        def __init__(self) -> None:
            super().__init__()
            self.short = nn.Sequential(nn.Identity(), nn.Linear(4, 4), nn.Dropout(0.0))

    original = Projected()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.name for site in conversion.sites] == ["relu"]
    assert_same(original, conversion.model, vectors())


def test_the_parts_of_a_recurrent_layers_output_are_no_aliases() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.relu, self.out = nn.LSTM(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            h, (state, _) = self.cell(x)
            return self.out(self.relu(h) + state)

    original = Recurrent()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.name for site in conversion.sites] == ["relu"]
    assert_same(original, conversion.model, vectors())
