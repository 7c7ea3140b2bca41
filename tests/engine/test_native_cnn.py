"""Convolutions of NativeNet against ModuleNet: the same formulas, and float32 no worse than torch's."""

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.double_kernels import double_kernels
from torch import nn

from adalin import AdaLin, native
from adalin.engine import ModuleNet, NativeNet, Update, choose_engine, make_net
from adalin.methods import Method
from adalin.models import cnn, make_model
from adalin.native import _library
from adalin.optim import SGD, Adam, RMSprop
from adalin.streams import Task

pytestmark = pytest.mark.skipif(native.isa() is None, reason="no native kernels here")

METHODS = ["relu", "adalin", "adalin-tanh", "adalin-gelu", "crelu", "fourier", "interpolation", "tanh", "silu"]
OPTIMIZERS = [SGD(), SGD(momentum=0.9, weight_decay=1e-3), Adam(), RMSprop()]


class OwnAct(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.5 * x)


def make(method, *, shape=(3, 20, 20), outputs=10, hidden=(16, 16, 64), seed=0):
    torch.manual_seed(seed)
    return cnn(shape[0], outputs, Method.parse(method).activation, hidden=hidden, size=shape[1])


def images(shape, count=40, outputs=10, dtype=torch.float32):
    return Task(torch.rand(count, *shape).to(dtype), torch.randint(outputs, (count,)))


def trained(net, task, *, steps=50, batch=7, optimizer=None, lr=1e-2):
    """The steps made, the last of them with fewer images than the others."""
    optimizer = optimizer or SGD()
    net.start_task(0, task)
    orders = torch.Generator().manual_seed(1)
    epochs = -(-steps * batch // len(task.labels))
    order = torch.cat([torch.randperm(len(task.labels), generator=orders) for _ in range(epochs)])[: steps * batch - 3]
    return net.train_steps(order, batch, 0, Update(optimizer, optimizer.init(net.parts), lr))


def error(mine, exact):
    return ((mine.double() - exact).norm() / exact.norm()).item()


def errors(net, exact):
    return {name: error(own, exact.params[name]) for name, own in net.params.items()}


def in_float64(model, task):
    """ModuleNet and NativeNet with the same weights, and the task."""
    nets = ModuleNet(copy.deepcopy(model).double()), NativeNet(copy.deepcopy(model).double(), double_kernels())
    return *nets, Task(task.inputs.double(), task.labels)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_fifty_steps_equal_autograd_in_float64(method, optimizer):
    shape = (3, 21, 21)
    exact, mine, task = in_float64(make(method, shape=shape, hidden=(5, 20, 17)), images(shape))
    lr = 1e-2 if isinstance(optimizer, SGD) else 1e-3
    steps = [trained(net, task, optimizer=optimizer, lr=lr) for net in (exact, mine)]
    assert max(errors(mine, exact).values()) <= 1e-10
    assert torch.equal(steps[0].correct, steps[1].correct)
    torch.testing.assert_close(steps[1].losses, steps[0].losses, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    method=st.sampled_from(METHODS),
    channels=st.integers(1, 4),
    size=st.integers(16, 23),
    hidden=st.tuples(st.integers(1, 36), st.integers(1, 36), st.integers(1, 36)),
    batch=st.sampled_from([1, 7, 16, 17]),
    seed=st.integers(0, 2**31),
)
def test_outputs_and_gradients_equal_autograd_for_any_widths_and_sizes(method, channels, size, hidden, batch, seed):
    shape = (channels, size, size)
    exact, mine, _ = in_float64(make(method, shape=shape, hidden=hidden, seed=seed), images(shape, count=1))
    x, grad = torch.rand(batch, *shape, dtype=torch.float64), torch.randn(batch, 10, dtype=torch.float64)
    assert error(mine.forward(x), exact.forward(x)) <= 1e-10
    for net in (exact, mine):
        net.backward(grad)
    for name, own in exact.grads.items():
        assert (mine.grads[name] - own).norm() <= 1e-10 * (own.norm() + 1)
    own = exact.input_gradient(grad)
    assert (mine.input_gradient(grad) - own).norm() <= 1e-10 * (own.norm() + 1)


@pytest.mark.parametrize("options", ["", ":match=half", ":match=params"])
@pytest.mark.parametrize("method", ["crelu", "fourier"])
def test_matched_widths_train_natively(method, options):
    torch.manual_seed(0)
    shape = (3, 32, 32)
    model = make_model("cnn", shape, 10, Method.parse(method + options).activation)
    exact, mine, task = in_float64(model, images(shape, count=20))
    for net in (exact, mine):
        trained(net, task, steps=6)
    assert max(errors(mine, exact).values()) <= 1e-10


@pytest.mark.parametrize("method", METHODS)
def test_float32_is_at_most_twice_as_far_from_float64_as_torch(method):
    """The median of several seeds: where two outputs in a pool are almost equal, rounding may choose another."""
    shape, found = (3, 20, 20), {"mine": [], "torch": []}
    for seed in range(5):
        model = make(method, shape=shape, seed=seed)
        task = images(shape)
        exact = ModuleNet(copy.deepcopy(model).double())
        nets = {"mine": NativeNet(copy.deepcopy(model)), "torch": ModuleNet(copy.deepcopy(model))}
        trained(exact, Task(task.inputs.double(), task.labels))
        for name, net in nets.items():
            trained(net, task)
            found[name].append(list(errors(net, exact).values()))
    mine, torchs = (torch.tensor(found[name]).median(0).values for name in ("mine", "torch"))
    assert (mine <= 2 * torchs).all()


@pytest.mark.parametrize("method", METHODS)
def test_avx2_and_avx512_give_the_same_bits(method):
    if native.isa() != "v4":
        pytest.skip("needs AVX-512")
    shape = (3, 22, 22)
    model = make(method, shape=shape, hidden=(5, 20, 33))
    nets = [NativeNet(copy.deepcopy(model), _library.load(isa)) for isa in ("v3", "v4")]
    task = images(shape)
    one, other = (trained(net, task) for net in nets)
    assert torch.equal(one.losses, other.losses)
    for part, same in zip(*(net.parts for net in nets), strict=True):
        assert torch.equal(part.value, same.value)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_bits_do_not_depend_on_how_steps_are_split_into_calls(optimizer):
    shape = (3, 17, 17)
    model, task, order = make("adalin", shape=shape), images(shape), torch.arange(40).flip(0)
    nets = [NativeNet(copy.deepcopy(model)) for _ in range(2)]
    for net, calls in zip(nets, ([40], [8, 16, 16]), strict=True):
        net.start_task(0, task)
        update = Update(optimizer, optimizer.init(net.parts), 1e-2)
        for first, rows in zip(itertools.accumulate([0, *calls]), order.split(calls), strict=False):
            net.train_steps(rows, 8, first // 8, update)
    for part, same in zip(*(net.parts for net in nets), strict=True):
        assert torch.equal(part.value, same.value)


@pytest.mark.parametrize("method", ["adalin", "fourier"])
def test_padding_stays_zero(method):
    shape = (2, 17, 17)
    net = NativeNet(make(method, shape=shape, hidden=(5, 20, 17)))
    trained(net, images(shape), optimizer=Adam(), lr=1e-3)
    for own in net.params.values():
        own.zero_()
    assert not any(part.value.any() for part in net.parts)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_whose_outputs_are_not_finite_is_not_made(method):
    shape = (3, 17, 17)
    net, task = NativeNet(make(method, shape=shape)), images(shape)
    task.inputs[27, 1, 5, 5] = torch.nan
    net.start_task(0, task)
    steps = net.train_steps(torch.arange(40), 8, 0, Update(SGD(), {}, 1e-2))
    assert len(steps) == 3
    assert steps.diverged
    assert all(own.isfinite().all() for own in net.params.values())


def test_parameters_keep_their_names_shapes_and_values():
    model = make("adalin", hidden=(5, 20, 17))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    net = NativeNet(model)
    assert list(net.params) == list(before)
    for name, value in net.model.state_dict().items():
        assert torch.equal(value, before[name])
        assert torch.equal(net.params[name], before[name])


@pytest.mark.parametrize("method", METHODS)
def test_the_network_of_class_split_cifar_gets_the_native_engine(method):
    model = make_model("cnn", (3, 32, 32), 5, Method.parse(method).activation)
    assert str(choose_engine(model)) == "native kernels"
    assert type(make_net(model)) is NativeNet


def test_images_of_another_size_are_refused():
    net = NativeNet(make("adalin", shape=(3, 20, 20)))
    with pytest.raises(ValueError, match="images of 32 x 32 pixels do not fit 64 inputs of the first linear layer"):
        net.forward(torch.rand(2, 3, 32, 32))
    with pytest.raises(ValueError, match="images of 5 x 5 pixels are too small for the convolutions"):
        net.forward(torch.rand(2, 3, 5, 5))
    with pytest.raises(ValueError, match="images of 3 channels"):
        net.forward(torch.rand(2, 1, 20, 20))
    net.forward(torch.rand(2, 3, 20, 20))
    with pytest.raises(ValueError, match="the network takes images of 20 x 20 pixels, not 21 x 21"):
        net.forward(torch.rand(2, 3, 21, 21))  # of these the kernels would make as many numbers


@pytest.mark.parametrize("method", ["adalin", "fourier"])
def test_predictions_equal_outputs_and_take_no_memory_for_thousands_of_images(method):
    net = NativeNet(make(method))
    x = torch.rand(2_000, 3, 20, 20)
    found = net.predict(x)
    room = net._network.workspace.numel()
    net.predict(x[:300])
    assert torch.equal(found, net.forward(x))
    assert net._network.workspace.numel() > 5 * room


def test_an_activation_of_ones_own_follows_a_linear_layer_behind_convolutions():
    torch.manual_seed(0)
    model = sequential(linear=nn.Linear(256, 20)).append(OwnAct()).append(nn.Linear(20, 10))
    exact, mine, task = in_float64(model, images((3, 20, 20)))
    for net in (exact, mine):
        trained(net, task)
    assert max(errors(mine, exact).values()) <= 1e-10


def sequential(**changed):
    modules = {
        "conv": nn.Conv2d(3, 4, 5),
        "act": nn.ReLU(),
        "pool": nn.MaxPool2d(2),
        "linear": nn.Linear(256, 10),
    } | changed
    return nn.Sequential(modules["conv"], modules["act"], modules["pool"], nn.Flatten(), modules["linear"])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"conv": nn.Conv2d(3, 4, 5, stride=2)}, "a convolution has a stride"),
        ({"conv": nn.Conv2d(3, 4, 5, padding=2)}, "a convolution has a stride, padding"),
        ({"conv": nn.Conv2d(3, 4, (5, 3))}, "no square kernel"),
        ({"conv": nn.Conv2d(3, 4, 5, bias=False)}, "no bias"),
        ({"act": nn.Softmax(1)}, "Softmax is not elementwise"),
        ({"act": OwnAct()}, "OwnAct after a convolution has no native kernel"),
        ({"act": AdaLin("relu", 4, dim=-1)}, "AdaLin after a convolution has no native kernel"),
        ({"pool": nn.MaxPool2d(3)}, "a max-pooling is not over 2 x 2 pixels"),
        ({"pool": nn.MaxPool2d(2, ceil_mode=True)}, "a max-pooling has options of its own"),
        ({"pool": nn.AvgPool2d(2)}, "not each followed by an activation and by max-pooling"),
    ],
)
def test_other_convolutions_are_refused_with_the_reason(changed, reason):
    assert not NativeNet.refusal(sequential())
    assert reason in NativeNet.refusal(sequential(**changed))


def test_convolutions_that_share_weights_are_refused():
    conv = nn.Conv2d(3, 3, 3)
    model = nn.Sequential(
        conv, nn.ReLU(), nn.MaxPool2d(2), conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 10)
    )
    assert NativeNet.refusal(model) == "convolutions share weights"
