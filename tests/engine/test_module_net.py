"""ModuleNet, step by step, against nn.Module, autograd and torch.optim, in float64."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import param_groups
from adalin.engine import ModuleNet, Net, Steps, Update
from adalin.methods import Method
from adalin.models import make_model
from adalin.optim import SGD, Adam
from adalin.streams import Task

IMAGES, BATCH = 20, 8
SHAPES = {"mlp": (30,), "cnn": (3, 16, 16), "resnet18-narrow": (3, 8, 8)}


def network(name: str, method: str = "adalin") -> nn.Module:
    return make_model(name, SHAPES[name], 4, Method.parse(method).activation).double()


def task(shape: tuple[int, ...]) -> Task:
    return Task(torch.rand(IMAGES, *shape, dtype=torch.float64), torch.arange(IMAGES) % 4)


def train_plainly(model: nn.Module, optimizer: torch.optim.Optimizer, data: Task, order: Tensor) -> list[list[float]]:
    """The textbook loop; returns the number of right answers and the loss of each batch."""
    made = []
    for rows in order.split(BATCH):
        outputs = model(data.inputs[rows])
        loss = F.cross_entropy(outputs, data.labels[rows])
        made.append([(outputs.argmax(1) == data.labels[rows]).sum().item(), loss.item()])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return made


@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize("optimizer", [SGD(), SGD(momentum=0.9, weight_decay=0.01), Adam()], ids=repr)
def test_a_network_trains_as_an_ordinary_module_does(name: str, optimizer) -> None:
    model, data = network(name), task(SHAPES[name])
    plain = deepcopy(model)
    if isinstance(optimizer, SGD):
        options = {"lr": 0.02, "momentum": optimizer.momentum}
        decayed, alphas = param_groups(plain, weight_decay=optimizer.weight_decay)
        if name == "resnet18-narrow":  # norms are not decayed either
            norms = {
                id(own) for module in plain.modules() if "Norm" in type(module).__name__ for own in module.parameters()
            }
            alphas["params"] += [own for own in decayed["params"] if id(own) in norms]
            decayed["params"] = [own for own in decayed["params"] if id(own) not in norms]
        theirs: torch.optim.Optimizer = torch.optim.SGD([decayed, alphas], **options)
    else:
        theirs = torch.optim.Adam(plain.parameters(), lr=0.02)
    net = ModuleNet(model)
    net.start_task(0, data)
    update = Update(optimizer, optimizer.init(net.parts), 0.02)
    for epoch in range(3):
        order = torch.randperm(IMAGES)
        made = net.train_steps(order, BATCH, epoch * 3, update)
        expected = train_plainly(plain, theirs, data, order)
        assert made.correct.tolist() == [right for right, _ in expected]
        assert made.losses.tolist() == pytest.approx([loss for _, loss in expected], rel=1e-9)
        assert not made.diverged
        values = plain.state_dict()
        for key, value in model.state_dict().items():
            torch.testing.assert_close(
                value, values[key], rtol=0, atol=1e-10, msg=lambda text, key=key: f"{key}: {text}"
            )


def test_parameters_and_gradients_go_by_torchs_names_and_are_what_is_trained() -> None:
    net = ModuleNet(network("mlp"))
    assert list(net.params) == [name for name, _ in net.model.named_parameters()] == list(net.grads)
    net.params["1.bias"].fill_(7)
    assert net.model[1].bias.eq(7).all()


def test_gradients_of_any_loss_come_from_forward_and_backward() -> None:
    net, x = ModuleNet(network("mlp")), torch.rand(5, 30, dtype=torch.float64)
    plain, inputs = deepcopy(net.model), x.clone().requires_grad_()
    outputs = net.forward(x)
    grad = torch.randn_like(outputs)
    net.backward(grad)
    before = [part.grad.clone() for part in net.parts]
    plain(inputs).backward(grad)
    for own, expected in zip(net.grads.values(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, expected.grad, rtol=0, atol=1e-14)
    torch.testing.assert_close(net.input_gradient(grad), inputs.grad, rtol=0, atol=1e-14)
    assert all(torch.equal(own, part.grad) for own, part in zip(before, net.parts, strict=True))


def test_alphas_norms_and_frozen_weights_are_no_weights() -> None:
    model = network("resnet18-narrow")
    model.fc.weight.requires_grad_(False)
    net = ModuleNet(model)
    assert "fc.weight" not in net.params
    named = [part.name for part in net.parts if part.is_weight]
    assert len(named) == 21
    assert not any("bn" in name or "act" in name or "downsample.1" in name for name in named)


def test_training_stops_before_the_update_of_the_first_step_whose_outputs_are_not_finite() -> None:
    model, data = network("resnet18-narrow"), task(SHAPES["resnet18-narrow"])
    data.inputs[11] = torch.inf
    net, alone = ModuleNet(model), ModuleNet(deepcopy(model))
    made = []
    for one, order in ((net, torch.arange(IMAGES)), (alone, torch.arange(8))):
        one.start_task(0, data)
        made.append(one.train_steps(order, BATCH, 0, Update(SGD(), {}, 0.1)))
    assert (len(made[0]), made[0].diverged) == (1, True)
    assert (len(made[1]), made[1].diverged) == (1, False)
    for own, expected in zip(net.model.state_dict().values(), alone.model.state_dict().values(), strict=True):
        assert torch.equal(own, expected)


def test_the_gradients_norm_is_clipped_as_torch_does_it() -> None:
    net = ModuleNet(network("mlp"))
    data = task(SHAPES["mlp"])
    plain = deepcopy(net.model)
    F.cross_entropy(plain(data.inputs), data.labels).backward()
    nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
    net.start_task(0, data)
    net.compute_gradients(torch.arange(IMAGES), 0)
    Update(SGD(), {}, 0.0, clip=0.05)(net)
    for own, expected in zip(net.grads.values(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, expected.grad, rtol=0, atol=1e-14)


def test_only_buffers_are_left_to_the_networks_own_state() -> None:
    net: Net = ModuleNet(network("resnet18-narrow"))
    state = net.state()
    assert state.keys() == {name for name, _ in net.model.named_buffers()}
    state = {name: value + 1 for name, value in state.items()}
    net.restore(state)
    assert all(torch.equal(value, state[name]) for name, value in net.model.named_buffers())


def test_no_step_can_be_joined_to_others() -> None:
    one = Steps(torch.tensor([3]), torch.tensor([0.5], dtype=torch.float64))
    joined = Steps.joined([one, Steps.none()])
    assert (joined.correct.tolist(), joined.losses.tolist(), joined.diverged) == ([3], [0.5], True)


def test_a_hook_that_draws_random_numbers_gets_those_of_its_step() -> None:
    """Nothing else than the step decides them: neither what was drawn before nor where a run was stopped."""
    gradients = []
    for before in (0, 5):
        torch.manual_seed(before)
        model = nn.Sequential(nn.Linear(4, 3))
        with torch.no_grad():
            model[0].weight.fill_(0.1), model[0].bias.zero_()
        model[0].register_forward_hook(lambda module, inputs, output: output + torch.randn_like(output))
        net = ModuleNet(model, seed=3)
        net.start_task(0, Task(torch.ones(8, 4), torch.arange(8) % 3))
        torch.rand(before)
        net.compute_gradients(torch.arange(8), 7)
        gradients.append(net.parts[0].grad.clone())
    assert torch.equal(*gradients)
