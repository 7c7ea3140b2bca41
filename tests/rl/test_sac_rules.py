"""Rules in SAC: on the actor, the critics and their targets, and through a stop."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from adalin._seeds import derive, generator
from adalin.engine import ModuleNet, make_net
from adalin.methods import ContinualBackprop, Method, ReDo, Rule
from adalin.models import mlp
from adalin.rl._sac import SAC, Batch
from rl.tiny_sac import define, train

SEED = 5


def agent(rules: tuple[Rule, ...], native: bool) -> SAC:
    torch.manual_seed(0)
    activation = Method.parse("adalin").activation
    models = [mlp(inputs, outputs, activation, hidden=(9, 8))[1:] for inputs, outputs in ((3, 2), *4 * [(4, 1)])]
    actor, *critics = (make_net(model) if native else ModuleNet(model) for model in models)
    bound = torch.ones(1)
    return SAC(actor, critics[:2], critics[2:], -bound, bound, generator(1), rules=rules, seed=SEED)


def batch() -> Batch:
    draws = generator(2)
    rows = lambda columns: torch.rand(16, columns, generator=draws)  # noqa: E731
    return Batch(rows(4), rows(1), torch.zeros(16, 1), rows(3))


@pytest.mark.parametrize("native", [True, False])
def test_new_units_of_critics_are_those_of_their_targets_too(native: bool) -> None:
    sac = agent((ReDo(every=1, tau=1e9),), native)
    sac.update(batch())
    for number, (critic, target) in enumerate(zip(sac.critics, sac.targets, strict=True)):
        last = list(critic.params)[-2]
        assert not critic.params[last].any()
        assert not target.params[last].any()
        draws = generator(derive(SEED, "critics", number), "rule", "redo", 0, 0, "2")
        bound = math.sqrt(6 / (4 + 9))
        expected = torch.empty(9, 1, 1, 4).uniform_(-bound, bound, generator=draws).view(9, 4)
        for net in (critic, target):
            torch.testing.assert_close(net.params["1.weight"], expected, rtol=0, atol=0)
            assert not net.params["1.bias"].any()
        assert not critic.memory["exp_avg.1.weight"].any()
        assert critic.memory["exp_avg.5.bias"].any()


def test_native_kernels_and_autograd_agree_on_an_agent_with_rules() -> None:
    rules = (ContinualBackprop(rate=0.1, maturity=2), *Method.parse("l2-init:strength=0.1").rules)
    numbers: list[dict[str, Tensor]] = []
    for native in (True, False):
        sac = agent(rules, native)
        for _ in range(12):
            sac.update(batch())
        numbers.append(sac.state())
    assert numbers[0].keys() == numbers[1].keys()
    assert numbers[0]["rules.critics.0.steps"] == 12
    assert not torch.equal(numbers[0]["rules.critics.0.cbp.age.2"], torch.full((9,), 12.0))
    for name, value in numbers[0].items():
        torch.testing.assert_close(value, numbers[1][name], rtol=0, atol=2e-4, msg=lambda t, n=name: f"{n}: {t}")


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    "method", ["adalin+redo:every=3,tau=0.9", "layernorm+reset:every=7", "crelu+cbp:rate=0.1,maturity=2"]
)
def test_a_stopped_agent_with_rules_goes_on_to_the_same_bits(method: str, tmp_path: Path) -> None:
    run = define("Pendulum-v1", method)
    whole = train(run, tmp_path / "whole")
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls > 3

    train(run, tmp_path / "stopped", stop=stop)
    assert train(run, tmp_path / "stopped") == whole
