"""Stacked training, step by step, against nn.Module, autograd and torch.optim.SGD."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import AdaLin, param_groups
from adalin.engine import Gram, MLPStack, ModuleStack, NetworkSpec, Stack
from adalin.engine._fresh import FreshUniform, FreshWeights
from adalin.methods import Method
from adalin.models import make_model
from adalin.streams import Task
from method_texts import METHODS

IMAGES, FEATURES, BATCH, LR = 40, 96, 16, 0.05


def spec_of(method: Method, seed: int, dtype: torch.dtype, gram: Gram | None, model: str = "mlp") -> NetworkSpec:
    torch.manual_seed(seed)
    shape = (FEATURES,) if model == "mlp" else (3, 16, 16)
    network = make_model(model, shape, 10, method.activation).to(dtype)
    return NetworkSpec(network, seed, LR, method.rules, gram)


def data(seed: int, dtype: torch.dtype, *shape: int) -> Task:
    generator = torch.Generator().manual_seed(seed)
    return Task(
        torch.rand(IMAGES, *shape, generator=generator, dtype=torch.float64).to(dtype),
        torch.randint(10, (IMAGES,), generator=generator),
    )


def train_plainly(one: NetworkSpec, task: Task, order: Tensor, index: int, first_step: int) -> list[float]:
    """The textbook loop: the loss, backward, an optimiser's step; rules as their papers write them."""
    model, accuracies = one.model, []
    decay = next((rule.strength for rule in one.rules if rule.name == "l2"), 0.0)
    noise = next((rule for rule in one.rules if rule.name == "shrink-perturb"), None)
    optimizer = torch.optim.SGD(param_groups(model, weight_decay=decay), lr=one.lr)
    for step, rows in enumerate(order.split(BATCH), first_step):
        logits = model(task.inputs[rows])
        accuracies.append((logits.argmax(1) == task.labels[rows]).double().mean().item())
        optimizer.zero_grad()
        F.cross_entropy(logits, task.labels[rows]).backward()
        optimizer.step()
        if noise:
            with torch.no_grad():
                for weight, new in zip(optimizer.param_groups[0]["params"], fresh(one, index, step), strict=True):
                    weight.copy_(noise.shrink * weight + noise.noise * new)
    return accuracies


def fresh(one: NetworkSpec, index: int, step: int) -> list[Tensor]:
    if not MLPStack.fits(one.model):
        return FreshWeights(one)("step", index, step)
    linears = [layer for layer in one.model if isinstance(layer, nn.Linear)]
    places = [
        linear.weight.new_empty(shape) for linear in linears for shape in (linear.weight.T.shape, linear.bias.shape)
    ]
    FreshUniform(one).write(places, "step", index, step)
    return [place.T if place.dim() == 2 else place for place in places]


def compare(stack_type: type[Stack], members: list[NetworkSpec], tasks: list[list[Task]], tolerance: float) -> None:
    references = [copy.deepcopy(one) for one in members]
    stack = stack_type(members)
    generator, step = torch.Generator().manual_seed(0), 0
    for index, task in enumerate(tasks):
        stack.start_task(index, task)
        for epoch in range(2):
            order = torch.stack([torch.randperm(IMAGES, generator=generator) for _ in members])
            result = stack.train(order, BATCH, step)
            for i, reference in enumerate(references):
                expected = train_plainly(reference, task[i], order[i], index, step)
                assert result[i].tolist() == expected
            if epoch == 1:
                stack.end_task()
            for i, reference in enumerate(references):
                for (name, ours), theirs in zip(
                    stack.model(i).named_parameters(), reference.model.parameters(), strict=True
                ):
                    torch.testing.assert_close(
                        ours, theirs, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
                    )
            step += result.shape[1]


@pytest.mark.parametrize("method", METHODS)
def test_a_stack_of_mlps_trains_as_ordinary_modules_do(method: str) -> None:
    members = [spec_of(Method.parse(method), seed, torch.float64, None) for seed in (0, 1, 2)]
    tasks = [[data(10 * t + seed, torch.float64, FEATURES) for seed in (0, 1, 2)] for t in (0, 1)]
    compare(MLPStack, members, tasks, 1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_stack_of_mlps_trains_as_ordinary_modules_do_in_float32(method: str) -> None:
    members = [spec_of(Method.parse(method), seed, torch.float32, None) for seed in (0, 1)]
    compare(MLPStack, members, [[data(seed, torch.float32, FEATURES) for seed in (0, 1)]], 2e-6)


@pytest.mark.parametrize("method", ["adalin", "adalin-tanh+l2", "fourier", "scratch"])
def test_training_the_outputs_of_the_first_layer_is_the_same_training(method: str) -> None:
    tasks = [data(seed, torch.float64, FEATURES) for seed in (0, 1)]
    grams = [Gram.of(task.inputs) for task in tasks]
    assert all(gram is not None for gram in grams)
    members = [spec_of(Method.parse(method), seed, torch.float64, grams[seed]) for seed in (0, 1)]
    compare(MLPStack, members, [tasks, tasks], 1e-12)


@pytest.mark.parametrize(
    ("images", "features", "pays"), [(1_200, 3_072, 1), (1_200, 784, 1), (43, 20, 0), (5_000, 9_000, 0)]
)
def test_outputs_are_trained_where_images_are_few(images: int, features: int, pays: int) -> None:
    assert (Gram.of(torch.zeros(images, features)) is not None) == pays


@pytest.mark.parametrize("method", ["baseline", "adalin", "crelu", "l2", "shrink-perturb", "adalin+l2"])
def test_any_network_trains_as_an_ordinary_module_does(method: str) -> None:
    members = [spec_of(Method.parse(method), seed, torch.float64, None, "cnn") for seed in (0, 1)]
    compare(ModuleStack, members, [[data(seed, torch.float64, 3, 16, 16) for seed in (0, 1)]], 1e-12)


def test_runs_of_different_methods_and_learning_rates_share_a_stack() -> None:
    methods = ["baseline", "adalin", "adalin-tanh", "tanh", "l2", "linear", "interpolation", "shrink-perturb"]
    members = [spec_of(Method.parse(method), seed, torch.float64, None) for seed, method in enumerate(methods)]
    members = [NetworkSpec(one.model, one.seed, LR / (one.seed + 1), one.rules) for one in members]
    compare(MLPStack, members, [[data(seed, torch.float64, FEATURES) for seed in range(len(methods))]], 1e-12)


def test_a_network_of_another_form_does_not_fit_a_stack() -> None:
    assert not MLPStack.fits(nn.Sequential(nn.Linear(4, 4)))
    assert not MLPStack.fits(nn.Sequential(nn.Flatten(), nn.Linear(4, 4)))
    assert not MLPStack.fits(nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)))
    assert not MLPStack.fits(make_model("cnn", (3, 32, 32), 10, Method.parse("adalin").activation))
    assert MLPStack.fits(make_model("mlp", (4,), 10, Method.parse("adalin").activation))


def mlp_of(activation: nn.Module, hidden: nn.Linear | None = None) -> nn.Sequential:
    first, second = nn.Linear(FEATURES, 24), hidden or nn.Linear(24, 24)
    layers = nn.Flatten(), first, activation, second, activation, nn.Linear(24, 10)
    return nn.Sequential(*layers).to(torch.float64)


@pytest.mark.parametrize(
    "activation", [nn.SiLU(), AdaLin("relu", 24, gate="linear", lipschitz=2.0)], ids=["silu", "adalin"]
)
def test_an_activation_that_layers_share_is_trained_as_one(activation: nn.Module) -> None:
    model = mlp_of(copy.deepcopy(activation))
    assert MLPStack.fits(model)
    compare(MLPStack, [NetworkSpec(model, 0, LR, (), None)], [[data(0, torch.float64, FEATURES)]], 1e-12)


def test_layers_that_share_weights_are_not_stacked() -> None:
    shared = nn.Linear(24, 24)
    layers = nn.Flatten(), nn.Linear(FEATURES, 24), nn.ReLU(), shared, nn.ReLU(), shared
    assert not MLPStack.fits(nn.Sequential(*layers))


def test_bytes_that_runs_share_are_scaled_once() -> None:
    members = [spec_of(Method.parse("baseline"), seed, torch.float32, None) for seed in (0, 1, 2)]
    scaled = []

    def scale(inputs: Tensor) -> Tensor:
        scaled.append(inputs)
        return inputs / 255

    task = Task(torch.zeros(IMAGES, FEATURES, dtype=torch.uint8), torch.zeros(IMAGES, dtype=torch.long), scale=scale)
    stack = MLPStack(members)
    stack.start_task(0, [task] * 3)
    assert len(scaled) == 1
    assert len(stack._inputs) == IMAGES
