"""Agents of Stable-Baselines3 built with `activation_fn=AdaLin`, which calls the class without a width."""

import pytest
import torch

from adalin import AdaLin

sb3 = pytest.importorskip("stable_baselines3", reason="the integrations extra is not installed")

# Gymnasium and Stable-Baselines3 warn about each other's versions, which is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore:::gymnasium", "ignore:::stable_baselines3")

NETWORK = {"activation_fn": AdaLin, "net_arch": [16, 16]}
AGENTS = {
    "SAC": ({"learning_starts": 20, "batch_size": 16, "buffer_size": 500}, 60),
    "PPO": ({"n_steps": 32, "batch_size": 16, "n_epochs": 2}, 64),
}


def alphas(module):
    return [layer.alpha for layer in module.modules() if isinstance(layer, AdaLin)]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_trains_saves_and_loads(name, tmp_path):
    options, steps = AGENTS[name]
    agent = getattr(sb3, name)("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(NETWORK), seed=0, device="cpu", **options)
    agent.learn(steps)
    learned = alphas(agent.policy)
    assert len(learned) >= 4
    assert all(alpha.shape == (16,) for alpha in learned)
    before = [alpha.detach().clone() for alpha in learned]
    agent.learn(steps)
    assert not any(torch.equal(alpha, old) for alpha, old in zip(learned, before, strict=True))

    agent.save(tmp_path / "agent")
    twin = getattr(sb3, name).load(tmp_path / "agent", device="cpu")
    observation = agent.get_env().reset()
    assert (agent.predict(observation, deterministic=True)[0] == twin.predict(observation, deterministic=True)[0]).all()
    for mine, theirs in zip(alphas(agent.policy), alphas(twin.policy), strict=True):
        assert torch.equal(mine, theirs)


def test_target_networks_start_with_their_critics_alphas():
    agent = sb3.SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(NETWORK), device="cpu")
    observation, action = torch.zeros(1, 3), torch.zeros(1, 1)
    agent.critic(observation, action)
    agent.critic_target(observation, action)
    for mine, target in zip(alphas(agent.critic), alphas(agent.critic_target), strict=True):
        assert torch.equal(mine, target)
