"""SAC's networks: whatever their activation, what their engine computes is what autograd gives."""

import copy

import pytest
import torch
from torch import Tensor, nn

from adalin.engine import Net
from adalin.methods import Method
from adalin.nn import AdaLin, activations, register_activation
from adalin.rl._build import make_networks
from adalin.runs import read_run
from method_texts import METHODS
from rl.tiny_sac import define_all

ALONE = [method for method in METHODS if Method.parse(method) == Method(Method.parse(method).activation)]
RANDOM = {"aid", "rrelu"}
"""Those that draw random numbers while they train: two passes are never the same."""
EVERY = [
    method
    for method in dict.fromkeys(
        [*ALONE, "adalin:gate=none", "crelu:match=half", "fourier:match=params", *activations()]
    )
    if method not in RANDOM
]
OBSERVATIONS, ACTIONS, BATCH = 5, 3, 7

with_and_without_layer_norm = pytest.mark.parametrize("layer_norm", [False, True])


def build(method: str, *, layer_norm: bool = False) -> tuple[Net, list[Net], list[Net]]:
    definition = {"benchmark": "sac-Pendulum-v1", "method": method, "seed": 0, "tasks": 2, "layer_norm": layer_norm}
    return make_networks(read_run(definition), OBSERVATIONS, ACTIONS)


def layers_of(net: Net) -> list[nn.Module]:
    return [layer for layer in net.model.modules() if not list(layer.children())]


def assert_equals_autograd(net: Net, inputs: int) -> None:
    for norm in layers_of(net):
        if isinstance(norm, nn.LayerNorm):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
    plain, x = copy.deepcopy(net.model), torch.randn(BATCH, inputs)
    theirs = x.clone().requires_grad_()
    expected = plain(theirs)
    grad = torch.randn(expected.shape)
    expected.backward(grad)

    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(net.forward(x), expected.detach(), **close)
    net.backward(grad)
    gradients = {name: own.clone() for name, own in net.grads.items()}
    assert gradients.keys() == dict(plain.named_parameters()).keys()
    for name, own in plain.named_parameters():
        torch.testing.assert_close(gradients[name], own.grad, **close)
    net.forward(x)
    torch.testing.assert_close(net.input_gradient(grad), theirs.grad, **close)
    assert all(torch.equal(own, gradients[name]) for name, own in net.grads.items()), (
        "which input_gradient leaves alone"
    )


@with_and_without_layer_norm
@pytest.mark.parametrize("method", EVERY)
def test_networks_equal_autograd(method: str, layer_norm: bool) -> None:
    actor, (critic, _), _ = build(method, layer_norm=layer_norm)
    has_norm = layer_norm or method == "layernorm"
    assert has_norm == any(isinstance(layer, nn.LayerNorm) for layer in layers_of(actor))
    assert_equals_autograd(actor, OBSERVATIONS)
    assert_equals_autograd(critic, OBSERVATIONS + ACTIONS)


def test_a_second_pass_forgets_the_first() -> None:
    net, _, _ = build("adalin-tanh", layer_norm=True)
    x, grad = torch.randn(BATCH, OBSERVATIONS), torch.randn(BATCH, 2 * ACTIONS)
    once = net.forward(x).clone()
    net.backward(grad)
    first = [part.grad.clone() for part in net.parts]
    assert all(grad.any() for grad in first)
    net.forward(torch.randn(BATCH, OBSERVATIONS))
    net.input_gradient(torch.randn(BATCH, 2 * ACTIONS))
    net.forward(torch.randn(1, OBSERVATIONS))
    net.forward(torch.randn(BATCH + 1, OBSERVATIONS))
    net.backward(torch.randn(BATCH + 1, 2 * ACTIONS))
    assert not torch.equal(net.parts[0].grad, first[0])
    assert torch.equal(net.forward(x), once)
    net.backward(grad)
    assert all(torch.equal(part.grad, own) for part, own in zip(net.parts, first, strict=True))


# activations of users


class Wave(nn.Module):
    """x + a sin(b x) + c x with parameters of 0, 1 and 2 axes."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.rand(()))
        self.b = nn.Parameter(torch.rand(units))
        self.c = nn.Parameter(torch.rand(1, units))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.a * torch.sin(self.b * x) + self.c * x


class Cubes(nn.Module):
    """Two outputs per neuron and nothing to learn."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, 0.1 * x**3), 1)


class OwnAdaLin(AdaLin):
    """A subclass may compute anything."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.5 * self.alpha_like(x).square() * x


@pytest.fixture
def _own_activations(forget: None) -> None:
    silu = nn.SiLU()
    register_activation("wave", lambda units, dim: Wave(units), "wave")
    register_activation("cubes", lambda units, dim: Cubes(), "cubes", expansion=2)
    register_activation("own-adalin", lambda units, dim: OwnAdaLin("tanh", units, dim=dim), "a subclass")
    register_activation("one-silu", lambda units, dim: silu, "the same object in all layers")


@pytest.mark.usefixtures("_own_activations")
@with_and_without_layer_norm
@pytest.mark.parametrize("method", ["wave", "cubes", "own-adalin", "one-silu"])
def test_networks_with_an_activation_of_ones_own_equal_autograd(method: str, layer_norm: bool) -> None:
    actor, _, _ = build(method, layer_norm=layer_norm)
    assert_equals_autograd(actor, OBSERVATIONS)


@pytest.mark.usefixtures("_own_activations")
def test_an_activation_that_all_layers_share_is_in_each_of_them() -> None:
    actor, _, _ = build("one-silu")
    assert [type(layer) for layer in actor.model] == [nn.Linear, nn.SiLU, nn.Linear, nn.SiLU, nn.Linear]


# what is refused


@pytest.mark.usefixtures("forget")
def test_what_is_frozen_is_refused_before_anything_starts() -> None:
    def build(width: int, dim: int) -> nn.Module:
        return AdaLin("relu", width, dim=dim).requires_grad_(False)

    register_activation("fixed-alpha", build, "AdaLin that does not learn")
    with pytest.raises(ValueError, match="SAC trains all parameters, and fixed-alpha has some that are frozen"):
        define_all("Pendulum-v1", ["baseline", "fixed-alpha"], [3])


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.relu()


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize("make", [nn.RReLU, Counting])
def test_what_cannot_be_resumed_is_refused_before_anything_starts(make: type[nn.Module]) -> None:
    register_activation("mine", lambda width, dim: make(), "mine")
    with pytest.raises(ValueError, match="and mine draws random numbers or has buffers"):
        define_all("Pendulum-v1", ["baseline", "mine"], [3])
