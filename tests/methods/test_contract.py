"""What every method has to do. A method that is registered is tested here without anybody writing a test."""

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, asdict, fields
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.engine import Learner, Learning, make_net
from adalin.executors import define, execute
from adalin.methods import Activation, ActivationMethod, Method, Norm, Rule, methods
from adalin.models import make_model
from adalin.nn import split_parameters
from adalin.optim import Optimizer
from adalin.runs import Event, Progress, Run, RunFolder, Session
from adalin.streams import Task, get_benchmark, register_benchmark
from method_texts import METHODS
from own_benchmarks import on_data
from synthetic_data import synthetic

SHAPES = {"mlp": (1, 8, 8), "cnn": (3, 16, 16)}
MODELS = [("mlp", method) for method in METHODS] + [("cnn", method) for method in methods()]
for_every_method = pytest.mark.parametrize("method", METHODS)
for_every_model_and_method = pytest.mark.parametrize(("model", "method"), MODELS)


def make(model: str, method: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(1)
    return make_model(model, SHAPES[model], 10, Method.parse(method).activation).to(dtype)


def inputs(model: str, count: int = 6, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(count, *SHAPES[model], generator=torch.Generator().manual_seed(2)).to(dtype)


def test_every_registered_method_is_in_this_suite() -> None:
    assert set(methods()) <= set(METHODS)


# its text


@for_every_method
def test_a_methods_text_says_all_of_it(method: str) -> None:
    parsed = Method.parse(method)
    assert Method.parse(str(parsed)) == parsed
    assert str(Method.parse(str(parsed))) == str(parsed)


@for_every_method
def test_every_option_of_a_method_can_be_written_out(method: str) -> None:
    parsed = Method.parse(method)
    parts = [(parsed.activation.name, parsed.activation.options)]
    norms = [] if parsed.activation.norm is None else [parsed.activation.norm]
    parts += [(part.name, asdict(part)) for part in (*norms, *parsed.rules, parsed.optimizer)]
    for name, options in parts:
        given = {key: value for key, value in options.items() if value is not None}
        written = Method.parse(f"{name}:{','.join(f'{key}={value}' for key, value in given.items())}")
        if isinstance(methods()[name], ActivationMethod):
            assert written == Method(parsed.activation.with_norm(None))
        elif issubclass(methods()[name], Optimizer):
            assert written == Method(optimizer=parsed.optimizer)
        elif issubclass(methods()[name], Norm):
            assert written == Method(Activation(norm=norms[0]))
        else:
            assert written.rules[0] in parsed.rules


@pytest.mark.parametrize("name", list(methods()))
def test_a_registered_method_has_a_summary_of_one_line(name: str) -> None:
    assert methods()[name].summary
    assert "\n" not in methods()[name].summary


@for_every_method
def test_the_parts_of_a_method_are_values_that_do_not_change(method: str) -> None:
    parsed = Method.parse(method)
    for part in (parsed, parsed.activation, parsed.optimizer, *parsed.rules):
        assert hash(part) == hash(copy.deepcopy(part))
        for option in fields(part):
            with pytest.raises(FrozenInstanceError):
                setattr(part, option.name, option.default)


@for_every_method
def test_a_method_can_be_copied_and_pickled(method: str) -> None:
    parsed = Method.parse(method)
    assert copy.deepcopy(parsed) == parsed
    assert pickle.loads(pickle.dumps(parsed)) == parsed


# its networks


@for_every_model_and_method
def test_a_method_builds_networks_whose_every_parameter_gets_a_gradient(model: str, method: str) -> None:
    network = make(model, method)
    logits = network(inputs(model, 16))
    assert logits.shape == (16, 10)
    F.cross_entropy(logits, torch.arange(16) % 10).backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in split_parameters(network)[0])
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@for_every_model_and_method
def test_a_copy_of_a_network_is_the_same_and_goes_its_own_way(model: str, method: str) -> None:
    network = make(model, method)
    copied = copy.deepcopy(network)
    before = network(inputs(model))
    assert torch.equal(copied(inputs(model)), before)
    assert len(list(copied.parameters())) == len(list(network.parameters()))  # what was shared still is
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert torch.equal(network(inputs(model)), before)
    assert not torch.equal(copied(inputs(model)), before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@for_every_model_and_method
def test_a_network_keeps_its_dtype(model: str, method: str, dtype: torch.dtype) -> None:
    network = make(model, method, dtype)
    logits = network(inputs(model, dtype=dtype))
    assert logits.dtype == dtype
    logits.sum().backward()
    assert {parameter.grad.dtype for parameter in network.parameters()} == {dtype}


# its training


def learner(model: str, method: str, dtype: torch.dtype = torch.float32) -> Learner:
    parsed = Method.parse(method)
    learning = Learning(lr=0.05, batch_size=16, rules=parsed.rules, seed=3)
    net = make_net(make(model, method, dtype))
    return Learner(net, parsed.optimizer, learning, new_model=lambda task: make(model, method, dtype))


def task(model: str, dtype: torch.dtype = torch.float32) -> Task:
    return Task(inputs(model, 16, dtype), torch.arange(16) % 10)


def train_a_task(learner: Learner, data: Task, number: int) -> None:
    learner.start_task(number, data, 1)
    learner.train(torch.arange(16), 0)
    learner.end_task(1)


@for_every_model_and_method
def test_training_keeps_the_dtype_too(model: str, method: str) -> None:
    trained = learner(model, method, torch.float64)
    for number in (0, 1):
        train_a_task(trained, task(model, torch.float64), number)
    assert {parameter.dtype for parameter in trained.net.model.parameters()} == {torch.float64}
    trained.restore(trained.state())
    assert {part.value.dtype for part in trained.net.parts} == {torch.float64}


BENCHMARKS = {
    "mlp": on_data(
        get_benchmark("random-label-mnist"), synthetic("mnist", shape=(1, 8, 8)), id="contract-mlp-v1", model="mlp"
    ),
    "cnn": on_data(
        get_benchmark("class-split-cifar100"),
        synthetic("cifar100", shape=(3, 16, 16), classes=10),
        id="contract-cnn-v1",
        model="cnn",
    ),
}
"""The benchmark that each model is trained on here."""


@pytest.fixture
def _benchmarks(forget: None) -> None:
    for benchmark in BENCHMARKS.values():
        register_benchmark(benchmark)


def define_run(model: str, method: str, **settings: Any) -> Run[Any]:
    settings = {"tasks": 2, "epochs": 10, "images": 20, "batch_size": 16, "lr": 0.02, **settings}
    (run,) = define(BENCHMARKS[model].name, [method], [3], **settings).runs
    return run


def train(run: Run[Any], out: Path, stop_after: float = math.inf) -> list[dict[str, Any]]:
    """Train for a number of steps, or to the end."""
    steps = 0

    def count(event: Event) -> None:
        nonlocal steps
        steps += event.steps if isinstance(event, Progress) else 0

    execute([run], Session(out=out, emit=count, stop=lambda: steps >= stop_after))
    return RunFolder(out / run.folder).rows()


@pytest.mark.usefixtures("_benchmarks")
@for_every_model_and_method
def test_training_lowers_the_loss_and_goes_on_exactly_where_it_was_stopped(
    model: str, method: str, tmp_path: Path
) -> None:
    run = define_run(model, method)
    (before,) = train(define_run(model, method, tasks=1, epochs=None, steps=1, lr=1e-30), tmp_path / "before")
    whole = train(run, tmp_path / "whole")
    assert len(whole) == 2
    assert whole[0]["loss"] < before["loss"]

    per_task = run.steps_of(1)
    stopped = train(run, tmp_path / "stopped", stop_after=per_task + per_task // 2)
    checkpoint = RunFolder(tmp_path / "stopped" / run.folder).load(pytest.fail)
    assert checkpoint is not None
    assert (checkpoint.position["task"], checkpoint.position["step"]) == (1, per_task // 2)
    assert stopped == whole[:1]
    assert train(run, tmp_path / "stopped") == whole


# its rules


RULES = [name for name, part in methods().items() if isinstance(part, type) and issubclass(part, Rule)]


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("rule", [*RULES, "shrink-perturb:every=task"])
def test_a_rule_never_touches_an_alpha(rule: str, model: str) -> None:
    alphas = []
    for method in ("adalin-tanh", f"adalin-tanh+{rule}"):
        trained = learner(model, method)
        train_a_task(trained, task(model), 0)  # one step: the gradient is the same with and without the rule
        trained.start_task(1, task(model), 1)
        alphas.append([alpha.clone() for alpha in split_parameters(trained.net.model)[1]])
    for without, with_rule in zip(*alphas, strict=True):
        # Those that begin with new ones, and one that is the optimiser of all parameters.
        assert torch.equal(without, with_rule) != (rule in ("scratch", "reset", "upgd"))


@pytest.mark.parametrize("name", RULES)
def test_a_method_that_is_no_activation_and_no_optimiser_is_a_rule_of_that_name(name: str) -> None:
    (rule,) = Method.parse(name).rules
    assert isinstance(rule, Rule)
    assert (rule.name, methods()[name]) == (name, type(rule))
