"""Stable-Baselines3's SAC, with the same weights, batch and noise, has the same losses and gradients."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adalin.engine import Net
from adalin.rl._build import make_networks
from adalin.rl._sac import SAC, Batch
from adalin.runs import read_run

gymnasium = pytest.importorskip("gymnasium", reason="the rl extra is not installed")
sb3 = pytest.importorskip("stable_baselines3", reason="the integrations extra is not installed")

# Gymnasium and Stable-Baselines3 warn about each other's versions, which is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore:::gymnasium", "ignore:::stable_baselines3")

OBSERVATIONS, ACTIONS, BATCH = 5, 3, 32
GAMMA, TAU, LOG_COEFFICIENT = 0.97, 0.1, -0.6
CLOSE = {"rtol": 2e-4, "atol": 2e-6}


class Nothing(gymnasium.Env[Any, Any]):
    """Spaces, and nothing in them."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(OBSERVATIONS, np.float32), {}


class Squashed(nn.Module):
    """log std between -5 and 2, instead of clamped; SB3's clamp leaves it as it is."""

    def forward(self, raw: Tensor) -> Tensor:
        return -1.5 + 3.5 * raw.tanh()


class Oracle(NamedTuple):
    losses: dict[str, float]
    critics: Tensor
    actor: Tensor
    coefficient: Tensor
    targets: Tensor


def run_agent() -> tuple[SAC, list[nn.Module]]:
    """Our agent, whose targets are not their critics; and copies of its networks."""
    run = read_run({"benchmark": "sac-Nothing-v0", "method": "baseline", "seed": 0, "tasks": 2})
    nets, bound, generator = make_networks(run, OBSERVATIONS, ACTIONS), torch.ones(ACTIONS), torch.Generator()
    settings: dict[str, Any] = {"gamma": GAMMA, "tau": TAU, "policy_lr": 0.0, "q_lr": 0.0, "policy_frequency": 1}
    sac = SAC(*nets, -bound, bound, generator.manual_seed(7), **settings)
    for target in sac.targets:
        for value in target.params.values():
            value.add_(0.02 * torch.randn(value.shape))
    sac.log_coefficient.fill_(LOG_COEFFICIENT)
    return sac, [copy.deepcopy(net.model) for net in (sac.actor, *sac.critics, *sac.targets)]


def make_batch() -> Batch:
    pairs = torch.cat((torch.randn(BATCH, OBSERVATIONS), torch.rand(BATCH, ACTIONS) * 2 - 1), 1)
    ends = (torch.rand(BATCH, 1) < 0.3).float()
    return Batch(pairs, torch.randn(BATCH, 1), ends, torch.randn(BATCH, OBSERVATIONS))


def flat(tensors: Any) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def ask_sb3(
    nets: list[nn.Module],
    data: Batch,
    noise: list[Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> Oracle:
    """One of its own updates, of which only that of the targets is carried out; noise is for now and for later."""
    actor, critics, targets = nets[0], nets[1:3], nets[3:]
    agent = sb3.SAC("MlpPolicy", Nothing(), gamma=GAMMA, tau=TAU, device="cpu", policy_kwargs={"net_arch": [256, 256]})
    agent.set_logger(sb3.common.logger.Logger(None, []))

    def give(own: Any, values: Any) -> None:
        with torch.no_grad():
            for parameter, value in zip(own, values, strict=True):
                parameter.copy_(value)

    *hidden, last = actor
    give(agent.actor.latent_pi.parameters(), [value for layer in hidden for value in layer.parameters()])
    (for_mean, for_std), (mean_bias, std_bias) = last.weight.chunk(2), last.bias.chunk(2)
    give(agent.actor.mu.parameters(), (for_mean, mean_bias))
    give(agent.actor.log_std.parameters(), (for_std, std_bias))
    agent.actor.log_std = nn.Sequential(agent.actor.log_std, Squashed())
    give(agent.critic.parameters(), [value for one in critics for value in one.parameters()])
    give(agent.critic_target.parameters(), [value for one in targets for value in one.parameters()])
    with torch.no_grad():
        agent.log_ent_coef.fill_(LOG_COEFFICIENT)

    seen: dict[str, Tensor] = {}

    def watch(name: str, optimizer: torch.optim.Optimizer, parameters: list[Tensor]) -> None:
        monkeypatch.setattr(optimizer, "step", lambda: seen.update({name: flat(p.grad for p in parameters)}))

    # Those of the mean's and of log std's layer, in the order of our last layer.
    mu, log_std = agent.actor.mu, agent.actor.log_std[0]
    watch("critics", agent.critic.optimizer, list(agent.critic.parameters()))
    order = [*agent.actor.latent_pi.parameters(), mu.weight, log_std.weight, mu.bias, log_std.bias]
    watch("actor", agent.actor.optimizer, order)
    watch("coefficient", agent.ent_coef_optimizer, [agent.log_ent_coef])

    observations, actions = data.pairs.split((OBSERVATIONS, ACTIONS), 1)
    samples = sb3.common.buffers.ReplayBufferSamples(
        observations, actions, data.next_observations, data.terminated, data.rewards
    )
    monkeypatch.setattr(agent.replay_buffer, "sample", lambda batch_size, env=None: samples)
    draws: Iterator[Tensor] = iter(noise)
    monkeypatch.setattr(torch.distributions.normal, "_standard_normal", lambda *args, **options: next(draws))
    agent.train(gradient_steps=1, batch_size=BATCH)
    assert next(draws, None) is None
    losses = {name.removeprefix("train/"): float(value) for name, value in agent.logger.name_to_value.items()}
    return Oracle(losses, **seen, targets=flat(agent.critic_target.parameters()))


def gradients(nets: Sequence[Net]) -> Tensor:
    return flat(value for net in nets for value in net.grads.values())


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> tuple[SAC, Oracle, Oracle]:
    """Our agent after an update without any steps; theirs, with our noise for the actor and for the coefficient."""
    (sac, nets), data = run_agent(), make_batch()
    source = torch.Generator().manual_seed(7)
    after, now, again = (torch.randn(BATCH, ACTIONS, generator=source) for _ in range(3))
    theirs = [ask_sb3(nets, data, [first, after], monkeypatch) for first in (now, again)]
    monkeypatch.undo()
    sac.update(data)
    return sac, *theirs


def test_critics_have_twice_the_loss_of_sb3(comparison: tuple[SAC, Oracle, Oracle]) -> None:
    """Which has a factor of 0.5 that CleanRL has not."""
    sac, theirs, _ = comparison
    assert sac.errors.square().mean(1).sum().item() == pytest.approx(2 * theirs.losses["critic_loss"], rel=1e-5)
    gradient = gradients(sac.critics)
    assert theirs.critics.norm() > 0.1
    torch.testing.assert_close(gradient, 2 * theirs.critics, **CLOSE)


def test_the_actor_has_the_loss_of_sb3(comparison: tuple[SAC, Oracle, Oracle]) -> None:
    sac, theirs, _ = comparison
    assert sac.actor_loss is not None
    assert sac.actor_loss.item() == pytest.approx(theirs.losses["actor_loss"], rel=1e-5)
    gradient = gradients([sac.actor])
    assert theirs.actor.norm() > 0.1
    torch.testing.assert_close(gradient, theirs.actor, **CLOSE)


def test_the_coefficient_has_the_gradient_of_sb3(comparison: tuple[SAC, Oracle, Oracle]) -> None:
    """Which takes it of the logarithm instead of the coefficient itself."""
    sac, _, theirs = comparison
    gradient = sac.state()["adam.log_coefficient.exp_avg"] / (1 - 0.9)
    expected = theirs.coefficient * np.exp(LOG_COEFFICIENT)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    assert theirs.losses["ent_coef_loss"] == pytest.approx(LOG_COEFFICIENT * theirs.coefficient.item(), rel=1e-5)
    assert sac.coefficient == pytest.approx(theirs.losses["ent_coef"])


def test_targets_follow_as_in_sb3(comparison: tuple[SAC, Oracle, Oracle]) -> None:
    sac, theirs, _ = comparison
    torch.testing.assert_close(flat(value for net in sac.targets for value in net.params.values()), theirs.targets)
