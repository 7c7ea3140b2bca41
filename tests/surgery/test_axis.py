"""Where the neurons are, and how many."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import AdaLin, convert
from convert_models import assert_same, every_model, images, vectors


@every_model
def test_sites_have_the_base_width_and_axis_of_their_layers(make, inputs, expected) -> None:
    conversion = convert(make())
    assert [(site.base, site.width, site.dim) for site in conversion.sites] == expected
    assert conversion.added == sum(width for _, width, _ in expected)
    layers = dict(conversion.model.named_modules())
    assert all(layers[site.name].alpha.numel() == site.alphas == site.width for site in conversion.sites)


def test_batched_and_unbatched_inputs_both_work() -> None:
    model = convert(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 2, 3))).model
    x = images()
    torch.testing.assert_close(model(x)[0], model(x[0]))


def test_weights_used_twice_have_alphas_used_twice() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.out = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2)

        def forward(self, x: Tensor, **options: object) -> Tensor:
            return self.out(self.block(torch.relu(self.block(x))))

    original = Recurrent()
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.name, site.width) for site in conversion.sites] == [("relu", 4), ("block.1", 4)]
    assert_same(original, conversion.model, vectors())
    assert_same(original, conversion.model, vectors(), flag=True)


def test_weights_without_layers_count_as_weights_and_leave_the_width_to_the_first_forward() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel, self.weight = nn.Parameter(torch.randn(6, 3, 2, 2)), nn.Parameter(torch.randn(7, 6))
            self.matrix, self.out = nn.Parameter(torch.randn(7, 5)), nn.Parameter(torch.randn(5, 2))

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(F.conv2d(x, self.kernel)).mean((2, 3))
            x = torch.tanh(F.linear(x, self.weight))
            return F.silu(x @ self.matrix) @ self.out

    original = Plain()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.width for site in conversion.sites] == [None] * 3
    assert_same(original, conversion.model, images())
    assert [conversion.model.get_submodule(site.name).alpha.numel() for site in conversion.sites] == [6, 7, 5]


def test_functional_layers_and_broadcasts_tell_the_axis() -> None:
    class Dueling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 4))
            self.value, self.advantage, self.out = nn.Linear(6, 1), nn.Linear(6, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = F.relu(F.linear(x, self.weight))
            return self.out(torch.tanh(self.value(h) + self.advantage(h)))

    conversion = convert(Dueling())
    assert [(site.width, site.dim) for site in conversion.sites] == [(None, -1), (None, -1)]
    conversion.model(torch.randn(2, 5, 5, 4))
    assert [m.alpha.numel() for m in conversion.model.modules() if isinstance(m, AdaLin)] == [6, 3]


def test_glu_halves_the_width() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GLU(), nn.Tanh(), nn.Linear(4, 2))
    convert(model)
    model(vectors())
    assert model[2].alpha.numel() == 4


def test_an_unknown_width_is_inferred_at_the_first_forward() -> None:
    class Reshaping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, 6), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc2(F.relu(self.fc1(x).reshape(-1, 3)))

    conversion = convert(Reshaping())
    assert [(site.width, site.alphas) for site in conversion.sites] == [(None, None)]
    conversion.model(vectors())
    assert conversion.model.relu.alpha.shape == (3,)


def test_alphas_have_the_dtype_and_device_of_the_layer_before() -> None:
    model = nn.Sequential(
        nn.Linear(4, 5).double(), nn.ReLU(), nn.Linear(5, 2, device="meta"), nn.Tanh(), nn.Linear(2, 2)
    )
    convert(model)
    assert model[1].alpha.dtype == torch.float64
    assert model[3].alpha.device.type == "meta"


def test_a_layer_norm_over_channels_first_keeps_them_first() -> None:
    class LayerNorm2d(nn.LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    model = nn.Sequential(nn.Conv2d(3, 5, 1), LayerNorm2d(5), nn.GELU(), nn.Conv2d(5, 2, 1))
    assert [(site.width, site.dim) for site in convert(model).sites] == [(5, -3)]
    assert model(images()).shape[1] == 2


def test_an_activation_inside_a_layers_subclass_has_the_width_of_its_input() -> None:
    class PreActivated(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(F.relu(x), self.weight, self.bias)

    original = nn.Sequential(nn.Linear(3, 4), PreActivated(4, 7), nn.Tanh(), nn.Linear(7, 2))
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.base, site.width, site.dim) for site in conversion.sites] == [("tanh", 7, -1), ("relu", 4, -1)]
    assert_same(original, conversion.model, torch.randn(4, 3))


def test_the_width_behind_a_block_that_decides_by_values_is_that_of_its_last_layer() -> None:
    class Reversed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second, self.first = nn.Linear(6, 5), nn.Linear(4, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x if x.sum() > 0 else -x))

    original = nn.Sequential(Reversed(), nn.ReLU(), nn.Linear(5, 2))
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.width, site.dim) for site in conversion.sites] == [(5, -1)]
    assert_same(original, conversion.model, vectors())


class Rearranged(nn.Module):
    """An activation behind operations that resize or move the axis of the neurons."""

    def __init__(self, rearrange) -> None:
        super().__init__()
        self.one, self.two, self.image = nn.Conv1d(3, 5, 1), nn.Conv1d(3, 6, 1), nn.Conv2d(1, 5, 1)
        self.linear, self.rearrange = nn.Linear(4, 7), rearrange

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.rearrange(self, x))


@pytest.mark.parametrize(
    ("rearrange", "width", "dim"),
    [
        (lambda m, x: torch.cat([m.one(x), m.two(x)], 1), 11, -2),
        (lambda m, x: m.one(x).transpose(1, 2), 5, -1),
        (lambda m, x: m.one(x).transpose(-1, -2), 5, -1),
        (lambda m, x: m.linear(x).transpose(1, 2), 7, -2),
        (lambda m, x: m.linear(x).transpose(0, 1), 7, -1),
        (lambda m, x: torch.permute(m.linear(x), (0, 2, 1)), 7, -2),
        (lambda m, x: m.image(x.unsqueeze(1)).permute(0, 2, 3, 1), 5, -1),
        (lambda m, x: m.image(x.unsqueeze(1)).transpose(1, 2), 5, -2),
        (lambda m, x: m.image(x.unsqueeze(1))[0], 5, -3),
        (lambda m, x: m.one(x)[:, :2], 2, -2),
        (lambda m, x: m.one(x).chunk(2, 1)[0], 3, -2),
    ],
)
def test_the_axis_is_followed_through_what_resizes_or_moves_it(rearrange, width: int, dim: int) -> None:
    original = Rearranged(rearrange)
    conversion = convert(original, inplace=False, init=0.0, only="relu")
    assert_same(original, conversion.model, torch.randn(2, 3, 4))
    assert (conversion.model.relu.alpha.numel(), conversion.model.relu.dim) == (width, dim)


def test_an_index_that_takes_an_axis_away_leaves_the_axis_to_the_first_forward() -> None:
    conversion = convert(Rearranged(lambda m, x: m.image(x.unsqueeze(1))[:, 0]), only="relu")
    assert [(site.width, site.dim) for site in conversion.sites] == [(None, None)]
    conversion.model(torch.randn(2, 3, 4))
    assert conversion.model.relu.dim == -1  # not the batch axis


def test_a_norm_that_has_not_seen_its_inputs_yet_has_lazy_alphas_behind_it() -> None:
    layers = nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    conversion = convert(nn.Sequential(*layers))
    conversion.model(images())
    assert conversion.model[2].alpha.shape == (8,)


def test_a_norm_over_several_axes_leaves_the_neurons_where_they_are() -> None:
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.LayerNorm([16, 8, 8]), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 2)
    (site,) = convert(nn.Sequential(*layers)).sites
    assert (site.width, site.dim) == (16, -3)


class PooledByAFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool1d(x, 2)


@pytest.mark.parametrize("pool", [nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(32), PooledByAFunction()], ids=str)
def test_pooling_over_the_neurons_leaves_fewer_of_them(pool) -> None:
    model = convert(nn.Sequential(nn.Linear(8, 64), pool, nn.ReLU(), nn.Linear(32, 2))).model
    model(torch.randn(5, 3, 8))
    assert model[2].alpha.numel() == 32


@pytest.mark.parametrize(
    "move",
    [lambda x: x.transpose(dim0=1, dim1=2), lambda x: torch.swapaxes(x, 1, 2), lambda x: x.permute(dims=(0, 2, 1))],
)
def test_axes_that_are_moved_by_name_are_followed(move) -> None:
    class Moved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act, self.last = nn.Linear(8, 6), nn.ReLU(), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.act(move(self.first(x))))

    (site,) = convert(Moved()).sites
    assert (site.width, site.dim) == (6, -2)


def test_an_axis_that_nobody_can_tell_is_asked_for() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.out = nn.Conv2d(3, 5, 3), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(F.relu(torch.einsum("bchw->bhwc", self.conv(x))))

    with pytest.raises(
        ValueError, match="cannot tell the axis of the neurons at relu, behind einsum: give it with dim="
    ):
        convert(Last())
    original = Last()
    conversion = convert(original, inplace=False, init=0.0, dim={"relu": -1})
    assert_same(original, conversion.model, images())
    assert conversion.model.relu.alpha.numel() == 5


def test_heads_that_are_split_off_and_moved_keep_their_features_last() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.out = nn.Linear(16, 32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            b, n, _ = x.shape
            q = F.elu(self.q(x).view(b, n, 4, 8).transpose(1, 2)) + 1
            return self.out(q.transpose(1, 2).reshape(b, n, 32))

    model = convert(Heads()).model
    for length in (5, 6):
        model(torch.randn(2, length, 16))
    assert (model.elu.dim, model.elu.alpha.numel()) == (-1, 8)
