"""The units of any model: which of its numbers make them, which read them, and why where nobody can say."""

import copy
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from adalin import AdaLin, convert
from adalin.methods import Method
from adalin.models import hidden_layers, make_model
from adalin.nn import CReLU
from adalin.structure import RESIDUAL, Edge, Units, find_units, watch_activations
from unit_edges import check_permutations, check_replacements, randomize

L = nn.Linear


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.hidden, self.out = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), L(6 * 4, 10), L(10, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3)
        x = F.gelu(self.hidden(x.flatten(1)))
        return {"logits": self.out(F.dropout(x, 0.1, self.training))}


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.two, self.head = L(6, 8), L(8, 12), L(12, 8), L(8, 3)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + self.two(torch.tanh(self.one(x)))
        return self.head(F.silu(x))


class Gated(nn.Module):
    """The feed-forward block of LLaMA, and one with both halves in one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = L(6, 10, bias=False), L(6, 10, bias=False), L(10, 6, bias=False)
        self.both, self.back = L(6, 16), L(8, 3)

    def forward(self, x):
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        one, other = self.both(x).chunk(2, dim=-1)
        return self.back(one * F.gelu(other))


class Excited(nn.Module):
    """An inverted bottleneck with squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.depth, self.project = (
            nn.Conv2d(3, 8, 1),
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.Conv2d(8, 4, 1),
        )
        self.norm, self.reduce, self.excite = nn.BatchNorm2d(8), nn.Conv2d(8, 5, 1), nn.Conv2d(5, 8, 1)

    def forward(self, x):
        x = F.relu6(self.norm(self.depth(F.silu(self.expand(x)))))
        weight = torch.sigmoid(self.excite(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))))
        return self.project(x * weight).mean((2, 3))


class Concatenating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = L(6, 5), L(6, 7), L(12, 3)

    def forward(self, x):
        return self.c(torch.cat([torch.relu(self.a(x)), torch.tanh(self.b(x))], dim=-1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position, self.token = nn.Parameter(torch.randn(1, 5, 8)), nn.Parameter(torch.randn(1, 1, 8))
        self.embed, self.layer = L(6, 8), nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(8), L(8, 2)

    def forward(self, x):
        x = F.relu(self.embed(x))
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.layer(x))[:, 0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again, self.out = L(6, 8), L(8, 8, bias=False), L(8, 2)

    def forward(self, x):
        h = torch.zeros(len(x), 8)
        for t in range(3):
            h = torch.tanh(self.enter(x[:, t]) + self.again(h))
        return self.out(h)


class Handwritten(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * torch.pow(x, 3.0))))


ZOO = {
    "mlp": (lambda: nn.Sequential(L(6, 8), nn.ReLU(inplace=True), nn.Dropout(0.5), L(8, 9), AdaLin(), L(9, 2)), (4, 6)),
    "norms": (
        lambda: nn.Sequential(L(6, 8), nn.BatchNorm1d(8), nn.PReLU(8), L(8, 9), nn.LayerNorm(9), nn.GELU(), L(9, 2)),
        (4, 6),
    ),
    "crelu": (lambda: nn.Sequential(nn.Conv1d(3, 4, 2), CReLU(), nn.Flatten(), L(40, 7), CReLU(), L(14, 2)), (2, 3, 6)),
    "handwritten": (lambda: nn.Sequential(L(6, 8), Handwritten(), L(8, 8), Handwritten(), L(8, 2)), (4, 6)),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(3, 5, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(5, 2, 1)),
        (2, 3, 5, 5),
    ),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(L(6, 8)), nn.ReLU(), L(8, 2)),
        (4, 6),
    ),
    "functional": (Functional, (2, 3, 8, 8)),
    "residual": (Residual, (4, 6)),
    "gated": (Gated, (4, 6)),
    "excited": (Excited, (2, 3, 5, 5)),
    "concatenating": (Concatenating, (4, 6)),
    "attention": (Attention, (2, 4, 6)),
    "recurrent": (Recurrent, (4, 3, 6)),
}


def built(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    make, shape = ZOO[name]
    model, x = make().eval(), torch.randn(shape)
    model(x)
    randomize(model)
    return model, x


def named(layers: list[Units]) -> dict[str, Units]:
    return {layer.name: layer for layer in layers}


@pytest.mark.parametrize("name", ZOO)
def test_all_edges_of_a_layer_permuted_alike_change_nothing_and_each_alone_does(name: str) -> None:
    model, x = built(name)
    layers = find_units(model, x)
    assert check_permutations(model, layers, lambda m: m(x))
    alone = [layer for layer in layers if (name, layer.name) != ("norms", "5")]  # its norm is over all of its units
    check_replacements(model, alone, lambda m: m(x))


def test_every_layer_of_the_zoo_is_found_and_only_shared_ones_are_entangled() -> None:
    found = {name: {u.name: u.entangled for u in find_units(*built(name))} for name in ZOO}
    elsewhere = "what it is given is read elsewhere too"
    assert found == {
        "mlp": {"1": "", "4": ""},
        "norms": {"2": "", "5": ""},
        "crelu": {"1": "", "4": ""},
        "handwritten": {"1": "", "3": ""},
        "transposed": {"1": ""},
        "weight norm": {"1": ""},
        "functional": {"relu": "", "gelu": ""},
        "residual": {"relu": RESIDUAL, "tanh": "", "silu": elsewhere},
        "gated": {"silu": "", "gelu": ""},
        "excited": {"silu": "", "relu6": "", "relu": "", "sigmoid": elsewhere},
        "concatenating": {"relu": "", "tanh": ""},
        "attention": {"relu": RESIDUAL, "layer.activation": ""},
        "recurrent": {"tanh": ""},
    }


@pytest.mark.parametrize("method", ["elu", "adalin-tanh", "crelu", "fourier"])
@pytest.mark.parametrize(("name", "shape"), [("mlp", (30,)), ("cnn", (3, 32, 32)), ("resnet18-narrow", (3, 8, 8))])
def test_the_laboratorys_networks_have_the_layers_that_their_builder_says(name: str, shape, method: str) -> None:
    model = make_model(name, shape, 4, Method.parse(method).activation).eval()
    found = find_units(model, torch.randn(2, *shape))
    for layer, known in zip(found, hidden_layers(model), strict=True):
        assert (layer.name, layer.width, layer.axis) == (known.name, known.width, known.axis)
        for kind in ("incoming", "biases", "gains", "shifts", "alphas", "outgoing"):
            assert set(getattr(layer, kind)) == set(getattr(known, kind)), (layer.name, kind)
        assert bool(layer.entangled) == bool(known.entangled)


def test_edges_have_copies_and_repeats_and_starts() -> None:
    layers = named(find_units(*built("crelu")))
    assert layers["1"].outgoing == (Edge("3.weight", 1, copies=2, repeat=5),)
    assert layers["1"].axis == -2
    layers = named(find_units(*built("concatenating")))
    assert layers["relu"].outgoing == (Edge("c.weight", 1),)
    assert layers["tanh"].outgoing == (Edge("c.weight", 1, start=5),)
    layers = named(find_units(*built("gated")))
    assert set(layers["silu"].incoming) == {Edge("gate.weight"), Edge("up.weight")}
    assert layers["gelu"].incoming == (Edge("both.weight", copies=2),)
    assert layers["gelu"].width == 8


def test_a_run_leaves_no_trace() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True), nn.Dropout(), nn.Flatten(), L(144, 2))
    model[0].eval()
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    torch.manual_seed(1)
    random.seed(1)
    states = torch.get_rng_state(), random.getstate()
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    kept = x.clone()
    find_units(model, x)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert modes == [module.training for module in model.modules()]
    assert torch.equal(x, kept)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_lazy_model_stays_lazy() -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), L(8, 8), AdaLin(), L(8, 2))
    layers = named(find_units(model, torch.randn(2, 3)))
    assert layers["1"].incoming == (Edge("0.weight"),)
    assert layers["3"].alphas == (Edge("3.alpha"),)
    assert isinstance(model[0].weight, nn.UninitializedParameter)
    assert isinstance(model[3].alpha, nn.UninitializedParameter)


def test_an_agent_without_a_forward_is_run_by_a_call() -> None:
    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = nn.Sequential(L(4, 8), nn.Tanh(), L(8, 2), nn.Tanh())
            self.critic = nn.Sequential(L(4, 8), nn.Tanh(), L(8, 1))

        def act(self, x):
            return torch.distributions.Normal(self.actor(x), 1.0), self.critic(x)

    agent = Agent()
    layers = named(find_units(agent, call=lambda m: m.act(torch.zeros(1, 4))))
    assert list(layers) == ["actor.1", "actor.3", "critic.1"]
    assert layers["actor.3"].entangled == "its outputs are the model's outputs"
    assert not layers["actor.1"].entangled
    assert layers["critic.1"].outgoing == (Edge("critic.2.weight", 1),)


def test_names_are_those_of_a_conversion() -> None:
    for name in ("mlp", "functional", "residual", "gated"):
        model, x = built(name)
        before = [layer.name for layer in find_units(model, x)]
        convert(model)
        assert [layer.name for layer in find_units(model, x)] == before


def test_what_is_not_understood_has_a_reason() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = L(6, 8), L(8, 2)

        def forward(self, x):
            return self.b(self.mixed(torch.relu(self.a(x))))

    cases = {
        "its outputs go through fft_r2c, which is not followed": lambda h: torch.fft.rfft(h).real.repeat(1, 2)[:, :8],
        "its outputs are multiplied by other activations": lambda h: h @ (h.T @ h),
        "a _softmax over all units reads its outputs".replace("_s", "s"): lambda h: h.softmax(-1),
        "a norm over several units follows": lambda h: F.layer_norm(h, (8,)),
        "each is combined with a number of its own that is no parameter, such as an input": lambda h: (
            h + torch.arange(8.0)
        ),
        "b.weight has them in an order that is not followed": lambda h: h.flip(-1).roll(3, -1),
    }
    for reason, mixed in cases.items():
        model = Odd()
        model.mixed = mixed
        (layer,) = find_units(model, torch.randn(3, 6))
        assert layer.entangled == reason


def test_errors_are_one_line() -> None:
    model = nn.Sequential(L(4, 8), nn.ReLU(), L(8, 2))
    with pytest.raises(ValueError, match=r"^Sequential does not run on the example: mat1 and mat2 shapes cannot be "):
        find_units(model, torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"^Sequential does not run on the example: .* missing 1 required positional"):
        find_units(model)
    with pytest.raises(TypeError, match=r"^find_units takes an nn.Module, not Method$"):
        find_units(Method.parse("relu"), torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"^give an example, or call= that runs the model by itself, not both$"):
        find_units(model, torch.zeros(2, 4), call=lambda m: m(torch.zeros(2, 4)))


def test_activations_are_watched_under_the_same_names_and_in_place_inputs_are_kept() -> None:
    model, x = built("functional")
    seen = {}
    with watch_activations(model, lambda call, given, result: seen.update({call.name: (given, result)})):
        model(x)
    assert list(seen) == [layer.name for layer in find_units(model, x)]
    given, result = seen["relu"]
    assert torch.equal(given.relu(), result)
    model = nn.Sequential(L(6, 8), nn.ReLU(inplace=True), L(8, 2))
    with watch_activations(model, lambda call, given, result: seen.update({call.name: (given, result)})):
        model(torch.randn(9, 6))
    assert (seen["1"][0] < 0).any()
    assert not (seen["1"][1] < 0).any()
    model(torch.randn(9, 6))
