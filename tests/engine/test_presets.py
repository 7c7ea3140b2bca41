"""What a preset adds to training, against torch.optim.SGD, step by step."""

from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from adalin import param_groups
from adalin._hardware import Hardware
from adalin.engine import PLAIN, Learner, Learning, Preset, make_net, presets
from adalin.methods import Method
from adalin.models import make_model
from adalin.optim import SGD
from adalin.streams import Task

IMAGES, BATCH = 12, 5


def task(validation: bool = False) -> Task:
    inputs, labels = torch.rand(IMAGES, 3, 16, 16, dtype=torch.float64), torch.arange(IMAGES) % 4
    held_out = (torch.rand(8, 3, 16, 16, dtype=torch.float64), torch.arange(8) % 4)
    return Task(inputs, labels, validation=(lambda: held_out) if validation else None)


def network() -> nn.Module:
    return make_model("cnn", (3, 16, 16), 6, Method.parse("adalin").activation).double()


def trained(
    model: nn.Module,
    data: Task,
    orders: list[torch.Tensor],
    preset: Preset = PLAIN,
    *,
    clip: float | None = None,
    precision: str = "float32",
    hardware: Hardware | None = None,
) -> Learner:
    net = make_net(model, hardware=hardware, preset=preset, precision=precision)
    learner = Learner(net, preset.optimizer, Learning(lr=0.1, batch_size=BATCH, clip=clip, preset=preset))
    per_epoch = -(-IMAGES // BATCH)
    learner.start_task(0, data, len(orders) * per_epoch)
    for epoch, order in enumerate(orders):
        assert len(learner.train(order, epoch * per_epoch)) == per_epoch
    learner.end_task(len(orders) * per_epoch)
    return learner


@pytest.mark.parametrize(
    ("momentum", "decay", "clip", "drops"),
    [(0.9, 0.0, None, ()), (0.0, 0.05, None, ()), (0.9, 0.05, 0.3, ()), (0.9, 0.05, None, ((1, 0.2), (2, 0.04)))],
)
def test_momentum_decay_clipping_and_schedule_are_torchs(momentum, decay, clip, drops) -> None:
    preset = Preset(name="mine", summary="", optimizer=SGD(momentum=momentum, weight_decay=decay), drops=drops)
    data, model = task(), network()
    plain, orders = deepcopy(model), [torch.randperm(IMAGES) for _ in range(3)]
    trained(model, data, orders, preset, clip=clip)
    optimizer = torch.optim.SGD(param_groups(plain, weight_decay=decay), lr=0.1, momentum=momentum)
    for epoch, order in enumerate(orders):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * {0: 1.0, 1: 0.2, 2: 0.04}[epoch] if drops else 0.1
        for rows in order.split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(plain(data.inputs[rows]), data.labels[rows]).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(plain.parameters(), clip)
            optimizer.step()
    for own, expected in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-12)


def test_outputs_for_unseen_classes_get_no_gradient() -> None:
    model, data = network(), task()
    before = deepcopy(model)
    trained(model, data, [torch.arange(IMAGES)], Preset(name="mine", summary="", only_seen=True))
    moved = (model[-1].weight != before[-1].weight).any(1)
    assert moved.tolist() == [True, True, True, True, False, False]


def test_the_network_goes_back_to_its_best_epoch() -> None:
    preset = Preset(name="mine", summary="", best_validation=True)
    torch.manual_seed(1)
    data, start = task(validation=True), network()
    orders = [torch.randperm(IMAGES) for _ in range(6)]
    held_out, labels = data.validation()
    accuracies, networks = [], []
    for epochs in range(1, 7):
        model = deepcopy(start)
        trained(model, data, orders[:epochs])
        with torch.no_grad():
            accuracies.append((model(held_out).argmax(1) == labels).double().mean().item())
        networks.append(model)
    best = accuracies.index(max(accuracies))
    assert best < 5, "else this shows nothing"
    model = deepcopy(start)
    trained(model, data, orders, preset)
    for own, expected in zip(model.parameters(), networks[best].parameters(), strict=True):
        assert torch.equal(own, expected)


def test_augmentation_is_the_runs_own_and_changes_training() -> None:
    preset, data, start = Preset(name="mine", summary="", augmented=True), task(), network()
    models = [deepcopy(start) for _ in range(3)]
    for seed, (model, own) in enumerate(zip(models, (preset, preset, PLAIN), strict=True)):
        torch.manual_seed(seed)
        trained(model, data, [torch.arange(IMAGES)], own)
    one, again, plain = (model[0].weight for model in models)
    assert torch.equal(one, again)
    assert not torch.equal(one, plain)


def test_what_is_rotated_in_from_beyond_the_edge_is_0_after_scaling() -> None:
    seen: list[torch.Tensor] = []
    preset, pixels = Preset(name="mine", summary="", augmented=True), torch.zeros(IMAGES, 3, 16, 16, dtype=torch.uint8)
    data = Task(pixels, torch.arange(IMAGES) % 4, scale=lambda own: own.float() + 2)
    model = network().float()
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    trained(model, data, [torch.arange(IMAGES)], preset)
    assert torch.cat(seen).unique().tolist() == [0.0, 2.0]


def test_dohares_learning_rate_drops_three_times_under_sgd_with_momentum() -> None:
    preset = presets.get("dohare2024")
    assert preset.optimizer == SGD(momentum=0.9, weight_decay=5e-4)
    assert preset.lr_factor(59) == 1
    assert [preset.lr_factor(epoch) for epoch in (60, 120, 160, 199)] == [0.2, 0.04, 0.008, 0.008]


def test_mixed_precision_trains_alike_but_not_to_the_bit() -> None:
    model, data = network().float(), task()
    data = Task(data.inputs.float(), data.labels)
    mixed = deepcopy(model)
    order = [torch.arange(IMAGES)]
    trained(model, data, order)
    trained(mixed, data, order, precision="bfloat16")
    for own, expected in zip(mixed.parameters(), model.parameters(), strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own, expected, rtol=0.1, atol=0.01)
    assert not torch.equal(mixed[0].weight, model[0].weight)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_network_on_cuda_trains_like_one_on_the_cpu() -> None:
    model, data = network(), task()
    there = deepcopy(model)
    trained(model, data, [torch.arange(IMAGES)])
    learner = trained(there, data, [torch.arange(IMAGES)], hardware=Hardware("cuda"))
    for own, expected in zip(there.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own.cpu(), expected, rtol=0, atol=1e-9)
    assert all(value.device.type == "cpu" for value in learner.state().values())


def test_a_compiled_network_trains_like_a_plain_one(monkeypatch) -> None:
    calls = []

    def traced(graph, inputs):
        """What torch.compile calls with the graph; instead of a compiler's code, the graph itself is run."""
        calls.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=traced))
    model, data = network(), task()
    compiled, order = deepcopy(model), torch.arange(IMAGES)
    trained(model, data, [order])
    trained(compiled, data, [order], hardware=Hardware(compile=True))
    assert calls
    for own, expected in zip(compiled.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-12)
