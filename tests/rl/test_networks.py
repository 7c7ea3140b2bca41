"""Networks with gradients written out give what autograd gives, whatever their activation."""

import copy

import pytest
import torch
from torch import Tensor, nn

from adalin.methods import Method
from adalin.nn import AdaLin, activations, register_activation
from adalin.rl._build import _network
from adalin.rl._networks import MLPs, ModuleStep
from adalin.rl._sac import Adam
from adalin.runs import read_run
from method_texts import METHODS
from registries import forget_later
from rl.tiny_sac import define_all

ALONE = [method for method in METHODS if not Method.parse(method).rules]
EVERY = list(dict.fromkeys([*ALONE, "adalin:gate=none", "crelu:match=half", "fourier:match=params", *activations()]))
FEW = ["baseline", "adalin", "adalin-tanh", "adalin:granularity=layer", "adalin:granularity=network", "crelu", "gelu"]
INPUTS, OUTPUTS, BATCH = 5, 3, 7

for_every_activation = pytest.mark.parametrize("method", EVERY)
for_one_network_and_two = pytest.mark.parametrize("count", [1, 2])
with_and_without_layer_norm = pytest.mark.parametrize("layer_norm", [False, True])


def build(method: str, count: int, *, layer_norm: bool = False, outputs: int = OUTPUTS) -> list[nn.Sequential]:
    definition = {"benchmark": "sac-Pendulum-v1", "method": method, "seed": 0, "tasks": 2, "layer_norm": layer_norm}
    run = read_run(definition)
    modules = [_network(run, INPUTS, outputs) for _ in range(count)]
    for module in modules:
        for norm in module:
            if isinstance(norm, nn.LayerNorm):
                nn.init.normal_(norm.weight)
                nn.init.normal_(norm.bias)
    return modules


def shapes_of_parameters(networks: MLPs, flat: Tensor) -> list[list[Tensor]]:
    """A vector like that of the parameters, in the shapes of the modules."""
    kept = networks.parameters.clone()
    networks.parameters.copy_(flat)
    found = [[own.detach().clone() for own in module.parameters()] for module in networks.write_modules()]
    networks.parameters.copy_(kept)
    networks.write_modules()
    return found


def assert_equals_autograd(modules: list[nn.Sequential], x: Tensor, *, last: int = 2, **tolerance: float) -> None:
    networks, plain = MLPs(copy.deepcopy(modules)), modules
    x = x.requires_grad_()
    each = x.expand(len(plain), -1, -1)
    expected = torch.stack([module(own) for module, own in zip(plain, each, strict=True)])
    grad = torch.randn(expected.shape)
    of_each = torch.stack(torch.autograd.grad(expected, each, grad, retain_graph=True))[0]
    of_parameters = [torch.autograd.grad(expected, [*one.parameters()], grad, retain_graph=True) for one in plain]

    with torch.no_grad():
        outputs = networks.forward(x)
        torch.testing.assert_close(outputs, expected, **tolerance)
        networks.backward(grad.clone())
        found = shapes_of_parameters(networks, networks.gradient)
        for mine, theirs in zip(found, of_parameters, strict=True):
            torch.testing.assert_close(mine, list(theirs), **tolerance)
        before = networks.gradient.clone()
        networks.forward(x)
        for_inputs = networks.input_gradient(grad.clone(), last=last)
        torch.testing.assert_close(for_inputs, of_each[..., -last:], **tolerance)
        assert torch.equal(networks.gradient, before), "the gradient for the inputs leaves that for parameters alone"


@pytest.mark.usefixtures("_double")
@with_and_without_layer_norm
@for_one_network_and_two
@for_every_activation
def test_networks_equal_autograd(method: str, count: int, layer_norm: bool) -> None:
    modules = build(method, count, layer_norm=layer_norm)
    assert layer_norm == any(isinstance(layer, nn.LayerNorm) for layer in modules[0])
    assert_equals_autograd(modules, torch.randn(1, BATCH, INPUTS), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", FEW)
def test_networks_equal_autograd_in_single_precision(method: str) -> None:
    assert_equals_autograd(build(method, 2), torch.randn(1, BATCH, INPUTS), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("last", [1, INPUTS])
@pytest.mark.parametrize("method", FEW)
def test_networks_can_have_inputs_of_their_own(method: str, last: int) -> None:
    assert_equals_autograd(build(method, 2), torch.randn(2, BATCH, INPUTS), last=last, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2, 15, 16, 17, 34])
def test_any_number_of_outputs_comes_out_without_its_padding(outputs: int) -> None:
    x = torch.randn(1, BATCH, INPUTS)
    modules = build("adalin", 2, outputs=outputs)
    with torch.no_grad():
        assert MLPs(modules).forward(x).shape == (2, BATCH, outputs)
    assert_equals_autograd(modules, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", FEW)
def test_a_second_pass_forgets_the_first(method: str) -> None:
    networks, x, grad = MLPs(build(method, 2)), torch.randn(1, BATCH, INPUTS), torch.randn(2, BATCH, OUTPUTS)
    with torch.no_grad():
        once = networks.forward(x).clone()
        networks.backward(grad.clone())
        gradient = networks.gradient.clone()
        assert gradient.any()
        networks.forward(torch.randn(1, BATCH, INPUTS))
        networks.input_gradient(torch.randn(2, BATCH, OUTPUTS), last=1)
        networks.forward(torch.randn(1, 1, INPUTS))
        networks.forward(torch.randn(1, BATCH + 1, INPUTS))
        networks.backward(torch.randn(2, BATCH + 1, OUTPUTS))
        assert not torch.equal(networks.gradient, gradient)
        assert torch.equal(networks.forward(x), once)
        networks.backward(grad.clone())
        assert torch.equal(networks.gradient, gradient)


@pytest.mark.parametrize("method", FEW)
def test_one_of_two_networks_is_what_it_would_be_alone(method: str) -> None:
    modules, x = build(method, 2), torch.randn(1, BATCH, INPUTS)
    grad = torch.randn(2, BATCH, OUTPUTS)
    both, second = MLPs(copy.deepcopy(modules)), MLPs(copy.deepcopy(modules[1:]))
    with torch.no_grad():
        torch.testing.assert_close(both.forward(x)[1:], second.forward(x))
        both.backward(grad.clone())
        second.backward(grad[1:].clone())
    mine, theirs = shapes_of_parameters(both, both.gradient), shapes_of_parameters(second, second.gradient)
    torch.testing.assert_close(mine[1], theirs[0], rtol=1e-4, atol=1e-5)


# activations of users, by autograd


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
def _own_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_later(monkeypatch)
    register_activation("wave", lambda units, dim: Wave(units), "wave")
    register_activation("cubes", lambda units, dim: Cubes(), "cubes", expansion=2)
    register_activation("own-adalin", lambda units, dim: OwnAdaLin("tanh", units, dim=dim), "a subclass")


OWN = ["wave", "cubes", "own-adalin"]


@pytest.mark.usefixtures("_own_activations", "_double")
@with_and_without_layer_norm
@for_one_network_and_two
@pytest.mark.parametrize("method", OWN)
def test_an_activation_without_a_kernel_equals_autograd(method: str, count: int, layer_norm: bool) -> None:
    modules = build(method, count, layer_norm=layer_norm)
    steps = MLPs(copy.deepcopy(modules))._steps
    assert sum(isinstance(step, ModuleStep) for step in steps) == 2
    assert_equals_autograd(modules, torch.randn(1, BATCH, INPUTS), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("_double")
def test_an_activation_without_a_kernel_can_be_shared_by_layers() -> None:
    units = 6
    modules = []
    for _ in range(2):
        wave = Wave(units)
        first, second, last = nn.Linear(INPUTS, units), nn.Linear(units, units), nn.Linear(units, OUTPUTS)
        modules.append(nn.Sequential(first, wave, second, wave, last))
    assert_equals_autograd(modules, torch.randn(1, BATCH, INPUTS), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("_own_activations")
@pytest.mark.parametrize("method", OWN)
def test_what_changes_the_parameters_changes_an_activation_without_a_kernel(method: str) -> None:
    networks, x = MLPs(build(method, 2)), torch.randn(1, BATCH, INPUTS)
    with torch.no_grad():
        networks.parameters.mul_(0.5)
        expected = torch.stack([module(x[0]) for module in networks.write_modules()])
        torch.testing.assert_close(networks.forward(x), expected, rtol=1e-4, atol=1e-5)


# modules


@pytest.mark.usefixtures("_own_activations")
@with_and_without_layer_norm
@pytest.mark.parametrize("method", [*FEW, *OWN])
def test_modules_are_read_and_written_to_the_bit(method: str, layer_norm: bool) -> None:
    first, second = (build(method, 2, layer_norm=layer_norm) for _ in range(2))
    expected = [[own.detach().clone() for own in module.parameters()] for module in first]
    one, other = MLPs(first), MLPs(second)
    assert not torch.equal(one.parameters, other.parameters)
    other.parameters.copy_(one.parameters)
    for module, values in zip(other.write_modules(), expected, strict=True):
        for own, value in zip(module.parameters(), values, strict=True):
            assert torch.equal(own, value)
    other.parameters.zero_()
    with torch.no_grad():
        for module, values in zip(second, expected, strict=True):
            for own, value in zip(module.parameters(), values, strict=True):
                own.copy_(value)
    other.read_modules()
    assert torch.equal(other.parameters, one.parameters)


def test_writing_gives_back_the_modules_that_were_given() -> None:
    modules = build("adalin", 2)
    written = MLPs(modules).write_modules()
    assert [id(module) for module in written] == [id(module) for module in modules]


@with_and_without_layer_norm
@pytest.mark.parametrize("outputs", [1, 6, 17])
@pytest.mark.parametrize("method", [*FEW, "softplus", "fourier", "sigmoid"])
def test_padding_stays_zero_while_everything_else_learns(method: str, outputs: int, layer_norm: bool) -> None:
    networks = MLPs(build(method, 2, layer_norm=layer_norm, outputs=outputs))
    before, adam = networks.parameters.clone(), Adam(networks.parameters, 1e-2)
    with torch.no_grad():
        for _ in range(3):
            networks.forward(torch.randn(1, 64, INPUTS))
            networks.backward(torch.randn(2, 64, outputs))
            adam.step(networks.gradient)
    own = [parameter for module in networks.write_modules() for parameter in module.parameters()]
    assert len(networks.parameters) > sum(parameter.numel() for parameter in own)
    assert networks.parameters.count_nonzero() == sum(parameter.count_nonzero() for parameter in own)
    assert networks.parameters.abs().sum() == pytest.approx(sum(parameter.abs().sum().item() for parameter in own))
    moved = (networks.parameters != before).float().mean()
    assert moved > 0.5


def test_what_is_frozen_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(width: int, dim: int) -> nn.Module:
        return AdaLin("relu", width, dim=dim).requires_grad_(False)

    forget_later(monkeypatch)
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


@pytest.mark.parametrize("make", [nn.RReLU, Counting])
def test_what_cannot_be_resumed_is_refused_before_anything_starts(
    make: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_later(monkeypatch)
    register_activation("mine", lambda width, dim: make(), "mine")
    with pytest.raises(ValueError, match="and mine draws random numbers or has buffers"):
        define_all("Pendulum-v1", ["baseline", "mine"], [3])


def test_an_activation_that_all_layers_share_is_in_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_later(monkeypatch)
    silu = nn.SiLU()
    register_activation("my-silu", lambda width, dim: silu, "the same object in all layers")
    (network,) = build("my-silu", 1)
    assert [type(layer) for layer in network] == [nn.Linear, nn.SiLU, nn.Linear, nn.SiLU, nn.Linear]
