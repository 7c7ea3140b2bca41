"""Rules in somebody else's loop: what works there, and what is refused in one line."""

import copy
import os
import pickle
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import adalin
from adalin import AdaLin
from adalin.methods import L2, ContinualBackprop, L2Init, LayerNorm, ReDo, Rule, Rules, Scratch, ShrinkPerturb

RULES = ContinualBackprop(rate=0.1, maturity=2) + L2Init(0.1)
REDO = ReDo(every=2, tau=0.9)


class Functional(nn.Module):
    """A network that calls functions, with images, a concatenation of convolutions and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6)
        self.hidden, self.out = nn.Linear(6 * 4, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3)
        return self.out(torch.tanh(self.hidden(x.flatten(1))))


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 7), AdaLin("tanh", 7), nn.Linear(7, 3)
    )


def functional() -> Functional:
    torch.manual_seed(0)
    return Functional()


def batches(model: nn.Module, count: int = 12) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    shape = (2, 8, 8) if isinstance(model, Functional) else (5,)
    for _ in range(count):
        yield torch.rand(16, *shape, generator=generator), torch.randint(3, (16,), generator=generator)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def train(model: Any, optimizer: Any, data: Any) -> None:
    for x, y in data:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def numbers(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().double().flatten() for value in model.state_dict().values()])


def trained(make: Callable[[], nn.Module], rules: Rule | Rules = RULES, **options: Any) -> Tensor:
    model = make()
    optimizer = adam(model)
    adalin.attach(model, optimizer, rules, **options)
    train(model, optimizer, batches(model))
    return numbers(model)


# what belongs to a unit


@pytest.mark.parametrize("make", [perceptron, functional])
def test_a_replaced_unit_is_new_with_all_that_belongs_to_it(make: Callable[[], nn.Module]) -> None:
    model = make()
    optimizer = adam(model)
    train(model, optimizer, batches(model))
    before = copy.deepcopy(model.state_dict())
    remedies = adalin.attach(model, optimizer, ReDo(every=1, tau=1e9), example=next(batches(model))[0])
    with torch.no_grad():  # a step that moves nothing
        for group in optimizer.param_groups:
            group["lr"] = 0.0
    train(model, optimizer, batches(model, 1))
    assert remedies.steps == 1
    for name, value in model.state_dict().items():
        moments = optimizer.state.get(dict(model.named_parameters()).get(name), {})
        if name in ("5.bias", "out.bias"):  # nobody's unit
            assert torch.equal(value, before[name])
            assert moments["exp_avg"].any()
            continue
        if "num_batches" in name:
            continue
        assert not torch.equal(value, before[name]), name
        kind = name.rpartition(".")[2]
        expected = {"running_mean": 0.0, "running_var": 1.0, "bias": 0.0}.get(kind)
        if name in ("5.weight", "out.weight"):
            expected = 0.0
        if name in ("1.weight", "norm.weight"):
            expected = 1.0
        if expected is not None:
            assert (value == expected).all(), name
        if kind == "alpha":
            assert value.min() >= 0
            assert value.max() <= 1
        if "exp_avg" in moments:
            assert not moments["exp_avg"].any(), name
            assert not moments["exp_avg_sq"].any(), name


def test_new_units_become_those_of_targets_too_and_nothing_else_does() -> None:
    model, target = perceptron(), perceptron()
    with torch.no_grad():
        for own in target.parameters():
            own.add_(0.5)
    before = numbers(target)
    optimizer = adam(model)
    adalin.attach(model, optimizer, ReDo(every=1, tau=1e9), targets=[target])
    train(model, optimizer, batches(model, 1))
    names = ("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias", "4.alpha", "5.weight")
    for name in names:
        assert torch.equal(model.state_dict()[name], target.state_dict()[name]), name
    assert torch.equal(numbers(target)[-3:], before[-3:])


def test_streams_of_a_residual_network_are_left_alone() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner, self.outer, self.last = (nn.Linear(5, 5) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.first(x))
            return self.last(x + self.outer(torch.relu(self.inner(x))))

    model = Residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    before = copy.deepcopy(model.state_dict())
    adalin.attach(model, optimizer, ReDo(every=1, tau=1e9))
    for x, _ in batches(model, 1):
        model(x).sum().backward()
        optimizer.step()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"inner.weight", "inner.bias", "outer.weight"}


# somebody else's loop


@pytest.mark.parametrize("rules", [RULES, REDO + L2Init(0.1), ReDo(every=2, tau=0.9, variant="kleinredo") + L2(0.1)])
@pytest.mark.parametrize("make", [perceptron, functional])
def test_a_saved_and_resumed_loop_is_the_whole_one_to_the_bit(
    make: Callable[[], nn.Module], rules: Rules, tmp_path: Path
) -> None:
    expected = trained(make, rules)
    model = make()
    optimizer = adam(model)
    remedies = adalin.attach(model, optimizer, rules)
    data = list(batches(model))
    train(model, optimizer, data[:5])
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "remedies": remedies.state_dict()}
    torch.save(saved, tmp_path / "saved.pt")

    model = make()
    optimizer = adam(model)
    remedies = adalin.attach(model, optimizer, rules)
    state = torch.load(tmp_path / "saved.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    remedies.load_state_dict(state["remedies"])
    assert remedies.steps == 5
    again = remedies.state_dict()  # before the model has run
    assert again["memory"].keys() == state["remedies"]["memory"].keys()
    train(model, optimizer, data[5:])
    assert torch.equal(numbers(model), expected)


def test_an_example_or_the_first_batch_make_no_difference() -> None:
    assert torch.equal(trained(functional), trained(functional, example=torch.rand(2, 2, 8, 8)))


def test_removed_rules_leave_model_and_optimiser_as_they_were() -> None:
    model = functional()
    optimizer = adam(model)
    with adalin.attach(model, optimizer, RULES):
        train(model, optimizer, batches(model, 3))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    adalin.attach(model, optimizer, RULES)  # nobody else is there


def test_evaluation_between_steps_changes_nothing() -> None:
    expected, model = trained(functional), functional()
    optimizer = adam(model)
    adalin.attach(model, optimizer, RULES)
    for x, y in batches(model):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        with torch.no_grad():
            model.eval()(torch.rand(3, 2, 8, 8))
            model.train()
        loss.backward()
        optimizer.step()
    assert torch.equal(numbers(model), expected)


def test_a_copied_model_is_nobodys() -> None:
    model = functional()
    optimizer = adam(model)
    adalin.attach(model, optimizer, RULES)
    copied = copy.deepcopy(model)
    train(model, optimizer, batches(model, 3))
    expected = numbers(copy.deepcopy(model))
    again = copy.deepcopy(model)
    own = copy.deepcopy(optimizer)
    train(again, torch.optim.SGD(again.parameters(), lr=0.1), batches(model, 3))
    assert torch.equal(numbers(model), expected)
    assert not own._optimizer_step_post_hooks
    copied(torch.rand(2, 2, 8, 8))
    assert torch.equal(numbers(pickle.loads(pickle.dumps(perceptron()))), numbers(perceptron()))
    pickle.loads(pickle.dumps(model.conv))


@pytest.mark.filterwarnings("ignore::UserWarning")  # the compiler's own
@pytest.mark.parametrize("moment", ["before", "after", "inplace", "without an example"])
@pytest.mark.parametrize("make", [perceptron, functional])
def test_a_compiled_model_learns_as_it_is(make: Callable[[], nn.Module], moment: str) -> None:
    expected, model = trained(make), make()
    optimizer, example = adam(model), next(batches(model))[0]
    called: Any = model
    if moment == "before":
        adalin.attach(model, optimizer, RULES, example=example)
        called = torch.compile(model, backend="eager")
    elif moment == "inplace":
        model.compile(backend="eager")
        adalin.attach(model, optimizer, RULES, example=example)
    else:
        called = torch.compile(model, backend="eager")
        adalin.attach(called, optimizer, RULES, example=example if moment == "after" else None)
    try:
        train(called, optimizer, batches(model))
    finally:
        torch._dynamo.reset()
    torch.testing.assert_close(numbers(model), expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_ran_compiled_before_is_refused_at_the_first_step() -> None:
    model = perceptron()
    optimizer, compiled = adam(model), torch.compile(model, backend="eager")
    train(compiled, optimizer, batches(model, 1))
    adalin.attach(compiled, optimizer, ReDo(), example=next(batches(model))[0])
    with pytest.raises(RuntimeError, match="nothing was seen of 2 in this step: call the model itself"):
        train(compiled, optimizer, batches(model, 1))
    torch._dynamo.reset()


def test_accumulated_gradients_are_one_step() -> None:
    model = perceptron()
    optimizer = adam(model)
    remedies = adalin.attach(model, optimizer, RULES)
    for number, (x, y) in enumerate(batches(model)):
        F.cross_entropy(model(x), y).backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    assert remedies.steps == 4


def test_a_gradient_scaler_skips_steps_and_rules_with_them() -> None:
    expected, model = trained(perceptron), perceptron()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu", init_scale=1024.0)
    remedies = adalin.attach(model, optimizer, RULES)
    data = list(batches(model))
    data.insert(4, (data[0][0] * torch.inf, data[0][1]))
    for x, y in data:
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert remedies.steps == len(data) - 1
    torch.testing.assert_close(numbers(model), expected, rtol=0, atol=1e-5)


def test_scaled_gradients_of_a_fused_optimiser_are_refused() -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    adalin.attach(model, optimizer, RULES)
    ((x, y),) = batches(model, 1)
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    with pytest.raises(RuntimeError, match=r"call scaler.unscale_\(optimizer\) before scaler.step"):
        scaler.step(optimizer)
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    adalin.attach(model, optimizer, RULES)
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)


@pytest.mark.parametrize("as_keyword", [True, False])
def test_a_closure_computes_gradients_before_rules_see_them(as_keyword: bool) -> None:
    expected, model = trained(perceptron), perceptron()
    optimizer = adam(model)
    adalin.attach(model, optimizer, RULES)
    for x, y in batches(model):

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure=closure) if as_keyword else optimizer.step(closure)
    assert torch.equal(numbers(model), expected)


def test_tasks_are_said_by_the_loop() -> None:
    model = perceptron()
    optimizer = adam(model)
    first = numbers(model)
    remedies = adalin.attach(model, optimizer, Scratch() + RULES, seed=4)
    train(model, optimizer, batches(model, 3))
    remedies.new_task()
    assert (remedies.task, remedies.step, remedies.steps) == (1, 0, 3)
    assert not optimizer.state
    assert not torch.equal(numbers(model), first)
    assert not remedies.state_dict()["memory"]["cbp.age.2"].any()
    train(model, optimizer, batches(model, 3))


def test_a_model_in_half_precision_gets_new_units_of_its_own_type() -> None:
    model = perceptron().to(torch.bfloat16)
    optimizer = adam(model)
    adalin.attach(model, optimizer, ReDo(every=1, tau=1e9) + ShrinkPerturb())
    for x, y in batches(model, 3):
        optimizer.zero_grad()
        F.cross_entropy(model(x.bfloat16()), y).backward()
        optimizer.step()
    assert {own.dtype for own in model.parameters()} == {torch.bfloat16}
    assert numbers(model).isfinite().all()


def in_one_of_two(rank: int, port: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    parallel = nn.parallel.DistributedDataParallel(model)
    remedies = adalin.attach(parallel, optimizer, RULES)
    for x, y in batches(model):
        optimizer.zero_grad()
        half = slice(8 * rank, 8 * rank + 8)
        F.cross_entropy(parallel(x[half]), y[half]).backward()
        optimizer.step()
    torch.save((numbers(model), remedies.state_dict()["memory"]), Path(folder, f"{rank}.pt"))
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not os.environ.get("ADALIN_SLOW"), reason="starts two processes: make test-slow")
def test_two_processes_replace_the_units_that_one_would(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(in_one_of_two, (port, str(tmp_path)), nprocs=2)
    (first, memory), (second, _) = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second)
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    alone = adalin.attach(model, optimizer, RULES)
    train(model, optimizer, batches(model))
    torch.testing.assert_close(first, numbers(model), rtol=0, atol=1e-5)
    assert torch.equal(memory["cbp.age.2"], alone.state_dict()["memory"]["cbp.age.2"])


# what is refused


def message(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_makes_no_sense_is_refused_in_one_line_when_it_is_attached() -> None:
    model, other = perceptron(), perceptron()
    optimizer, example = adam(model), next(batches(model))[0]
    plain = nn.Linear(5, 3)
    attach: Any = adalin.attach
    for error, rules, own, mover, options, text in [
        (ValueError, REDO, model, adam(other), {}, "the optimiser has no parameter of this model"),
        (TypeError, "redo", model, optimizer, {}, "attach takes rules such as ReDo"),
        (TypeError, LayerNorm(), model, optimizer, {}, "layernorm is part of a network: build the model with it"),
        (TypeError, REDO, "model", optimizer, {}, "attach takes an nn.Module, not 'model'"),
        (TypeError, REDO, model, None, {}, "attach takes an optimiser of torch.optim's form, not None"),
        (ValueError, REDO, model, torch.optim.LBFGS(model.parameters()), {}, "LBFGS makes many steps in one"),
        (ValueError, REDO, nn.DataParallel(model), optimizer, {}, "DataParallel copies the model"),
        (ValueError, REDO, plain, adam(plain), {"example": example}, "this Linear has no units that can be replaced"),
        (ValueError, REDO, model, optimizer, {"example": torch.rand(2, 4)}, "Sequential does not run on the example"),
        (ValueError, REDO, model, optimizer, {"targets": [plain]}, "a target has other parameters than the model"),
    ]:
        assert text in message(error, lambda o=own, m=mover, r=rules, k=options: attach(o, m, r, **k))
    for rules, text in [
        (lambda: ReDo() + ContinualBackprop(), "redo and cbp both set units: take one of them"),
        (lambda: ReDo() + ReDo(every=5), "redo is there twice"),
        (lambda: ReDo(every=0), "option every of redo must be a whole number >= 1, not 0"),
        (lambda: ReDo(tau=-1), "option tau of redo must be a number >= 0, not -1"),
        (lambda: ReDo(variant="redo"), "option variant of redo must be one of sokar2023, kleinredo, kumar2023"),
        (lambda: ContinualBackprop(rate=2), "option rate of cbp must be a number from 0 to 1, not 2"),
        (lambda: L2Init(-1), "option strength of l2-init must be a number >= 0, not -1"),
    ]:
        assert text in message(ValueError, rules)


def test_rules_on_one_optimiser_that_exclude_each_other_are_refused() -> None:
    model = perceptron()
    optimizer = adam(model)
    adalin.attach(model, optimizer, ReDo())
    assert "redo and cbp both set units" in message(
        ValueError, lambda: adalin.attach(model, optimizer, ContinualBackprop())
    )


def test_a_model_without_units_is_refused_at_its_first_batch() -> None:
    model = nn.Linear(5, 3)
    adalin.attach(model, adam(model), ReDo())
    assert "this Linear has no units that can be replaced" in message(ValueError, lambda: model(torch.rand(2, 5)))
    assert "this Linear has no units that can be replaced" in message(ValueError, lambda: model(torch.rand(2, 5)))


def test_a_step_without_the_model_is_refused() -> None:
    model = perceptron()
    optimizer = adam(model)
    adalin.attach(model, optimizer, ReDo())
    assert "the model has not run since the rules were attached" in message(RuntimeError, optimizer.step)


def test_frozen_parameters_have_units_that_stay() -> None:
    model = perceptron()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = adam(model)
    adalin.attach(model, optimizer, ReDo(every=1, tau=1e9) + L2Init(0.1))
    train(model, optimizer, batches(model, 2))
    assert torch.equal(model[0].weight, before)
    assert not model[3].bias.any()


def test_states_of_other_rules_and_models_are_refused() -> None:
    model = perceptron()
    remedies = adalin.attach(model, adam(model), RULES, example=next(batches(model))[0])
    state = remedies.state_dict()
    assert "this state is of ContinualBackprop" in message(
        ValueError, lambda: remedies.load_state_dict({**state, "rules": [*state["rules"], "ReDo()"]})
    )
    assert "this is no state of attached rules" in message(ValueError, lambda: remedies.load_state_dict({}))
    small = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    other = adalin.attach(small, adam(small), RULES, example=next(batches(model))[0])
    before = other.state_dict()
    assert "this state is of another model: cbp.age.1, cbp.age.2, cbp.age.4" in message(
        ValueError, lambda: other.load_state_dict(state)
    )
    after = other.state_dict()["memory"]
    assert all(torch.equal(value, after[name]) for name, value in before["memory"].items())
    assert "attach rules to the copies" in message(TypeError, lambda: copy.deepcopy(remedies))
    assert "saved by state_dict()" in message(TypeError, lambda: pickle.dumps(remedies))
