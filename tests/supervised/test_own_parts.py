"""Networks, rules and streams of users: what they may do, and that their numbers are their own too."""

import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from adalin import AdaLin, register_activation
from adalin.methods import Rule, register_method
from adalin.models import register_model
from adalin.streams import get_benchmark, register_benchmark
from adalin.supervised._build import Streams, make_network
from tiny_runs import after_epochs, data_of, define, tensor_digest, train

pytestmark = pytest.mark.usefixtures("forget")
BENCHMARK = "random-label-mnist"


class OwnNetwork(nn.Module):
    """With dropout, a layer that is frozen and one that is not used."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, 20), nn.Linear(20, outputs)
        self.frozen, self.unused = nn.Linear(20, 20).requires_grad_(False), nn.Linear(20, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.dropout(torch.relu(self.first(x.flatten(1))))
        return self.last(torch.tanh(self.frozen(hidden)))


def register_own_network() -> None:
    def build(shape, outputs, activation, *, hidden):
        return OwnNetwork(torch.Size(shape).numel(), outputs)

    register_model("own", build, hidden=(20,), summary="mine")


def test_dropout_depends_neither_on_neighbours_nor_on_where_a_run_was_stopped(tmp_path: Path) -> None:
    register_own_network()
    one, other = (define(BENCHMARK, "baseline", seed, model="own") for seed in (3, 4))
    expected = train([one], tmp_path / "alone")[one]
    assert train([other, one], tmp_path / "beside")[one] == expected
    train([one], tmp_path / "stopped", **after_epochs(2))
    torch.rand(5)
    assert train([one], tmp_path / "stopped")[one] == expected


def test_dropout_drops_something_else_in_every_step(tmp_path: Path) -> None:
    register_own_network()
    outputs = []
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, _, out: outputs.append(out == 0) if isinstance(module, nn.Dropout) else None
    )
    try:
        train([define(BENCHMARK, "baseline", model="own", images=32, epochs=1, tasks=1)], tmp_path)
    finally:
        hook.remove()
    first, second, *_ = outputs
    assert not torch.equal(first, second)


@pytest.mark.parametrize("method", ["baseline", "l2:strength=1", "shrink-perturb"])
def test_what_is_frozen_or_not_used_is_left_alone(method: str, tmp_path: Path) -> None:
    register_own_network()
    one = define(BENCHMARK, method, model="own")
    start = make_network(one, Streams(data_of(BENCHMARK)).stream(one), "init", 0).state_dict()
    trained = train([one], tmp_path)[one]
    same = {name for name, value in start.items() if trained[f"network.{name}"] == tensor_digest(value)}
    assert same == {"frozen.weight", "frozen.bias"} | (
        {"unused.weight", "unused.bias"} if method == "baseline" else set()
    )


def test_a_frozen_alpha_stays_what_it_is(tmp_path: Path) -> None:
    def build(width: int, dim: int) -> nn.Module:
        layer = AdaLin("relu", width, dim=dim, init=0.3)
        layer.alpha.requires_grad_(False)
        return layer

    register_activation("fixed-alpha", build, "AdaLin that does not learn")
    one = define(BENCHMARK, "fixed-alpha")
    alphas = {name: value for name, value in train([one], tmp_path)[one].items() if name.endswith("alpha")}
    assert len(alphas) == 2
    assert set(alphas.values()) == {tensor_digest(torch.full((100,), 0.3))}


def test_a_rule_may_ask_for_fresh_weights_whenever_it_acts(tmp_path: Path) -> None:
    @register_method
    @dataclass(frozen=True)
    class Both(Rule):
        """At a task's start and after every step."""

        name = "both"
        summary = "adds a little of a new network"

        def start_task(self, net, now):
            for part, new in zip(net.weights, now.fresh(), strict=True):
                part.value.add_(new, alpha=0.1)

        def after_step(self, net, now):
            for part, new in zip(net.weights, now.fresh(), strict=True):
                part.value.add_(new, alpha=0.001)

    one = define(BENCHMARK, "both")
    assert train([one], tmp_path)[one]["position"]["state"] == "done"


def test_runs_of_a_stream_that_cannot_be_pickled_reach_their_worker() -> None:
    known = get_benchmark(BENCHMARK)
    register_benchmark(replace(known, id="mine-v1", stream=lambda *args, **options: known.stream(*args, **options)))
    one = define("mine", "baseline", dataset=data_of(BENCHMARK), tasks=1)
    assert one.total_steps > 0  # which looks up the benchmark
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda labels: labels + 1, "torch.int64 from 1 to 10"),
        (lambda labels: labels - 1, "torch.int64 from -1 to 8"),
        (lambda labels: labels.float(), "torch.float32 from 0.0 to 9.0"),
    ],
)
def test_labels_that_are_no_classes_are_told_in_one_line(change, found) -> None:
    known = get_benchmark(BENCHMARK)

    class Wrong:
        same_inputs = True

        def __init__(self, *args, **options) -> None:
            self._stream = known.stream(*args, **options)
            self.shape, self.classes = self._stream.shape, self._stream.classes

        def task(self, index):
            task = self._stream.task(index)
            return replace(task, labels=change(task.labels))

    register_benchmark(replace(known, id="mine-v1", stream=Wrong))
    message = f"^task 0 of mine-v1 has labels of {found}, not of torch.int64 from 0 to 9$"
    with pytest.raises(ValueError, match=message):
        define("mine", "baseline", dataset=data_of(BENCHMARK), tasks=1, epochs=1, images=200)


@pytest.mark.parametrize("made", [None, [], 5])
def test_a_stream_that_is_none_is_told_in_one_line(made: object) -> None:
    benchmark = replace(get_benchmark(BENCHMARK), id="mine-v1", stream=lambda *arguments, **options: made)
    register_benchmark(benchmark)
    with pytest.raises(TypeError, match=r"^the stream of mine-v1 must be one of tasks with shape, not "):
        define("mine", "adalin")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_are_told_before_anything_is_trained(number: float) -> None:
    known = get_benchmark(BENCHMARK)

    class Wrong:
        same_inputs = True

        def __init__(self, *args, **options) -> None:
            self._stream = known.stream(*args, **options)
            self.shape, self.classes = self._stream.shape, self._stream.classes

        def task(self, index):
            task = self._stream.task(index)
            inputs = task.floats(task.inputs).clone()
            inputs[7, 0, 3] = number
            return replace(task, inputs=inputs, scale=None)

    register_benchmark(replace(known, id="mine-v1", stream=Wrong))
    with pytest.raises(ValueError, match=r"^task 0 of mine-v1 has inputs that are NaN or infinite: remove or replace"):
        define("mine", "baseline", dataset=data_of(BENCHMARK), tasks=1, epochs=1, images=200)


def test_a_network_that_does_not_fit_into_memory_is_told_before_anything_is_trained() -> None:
    def build(shape, outputs, activation, *, hidden):
        return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 10**9), nn.Linear(10**9, outputs))

    register_model("huge", build, hidden=(10**9,), summary="mine")
    with pytest.raises(ValueError, match=r"^adalin on random-label-mnist-v1 needs about 12\d{3} GB \(79\d,"):
        define(BENCHMARK, "adalin", model="huge")
