"""SBX's SAC (JAX): its update, compiled with all others of a call into one program, and its loop in an environment."""

from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import numpy as np
import sbx
from sbx.common.type_aliases import ReplayBufferSamplesNp

HIDDEN, BATCH = 256, 256
SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-4,
    "qf_learning_rate": 1e-3,
    "batch_size": BATCH,
    "policy_kwargs": {"net_arch": [HIDDEN, HIDDEN]},
    "seed": 0,
}


class Spaces(gymnasium.Env[Any, Any]):
    """Spaces, and nothing in them."""

    def __init__(self, observations: int, actions: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observations,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (actions,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape or (), np.float32), {}


def updates(observations: int, actions: int, count: int) -> Callable[[], object]:
    """So many updates in one call, each with its own part of the same transitions; the actor learns in each."""
    agent = sbx.SAC("MlpPolicy", Spaces(observations, actions), **SETTINGS)
    rng = np.random.default_rng(0)
    widths = (observations, actions, observations)
    seen, acted, followed = (rng.standard_normal((count * BATCH, width)).astype(np.float32) for width in widths)
    data = ReplayBufferSamplesNp(
        seen,
        acted,
        followed,
        dones=np.zeros(count * BATCH, np.float32),
        rewards=rng.standard_normal(count * BATCH).astype(np.float32),
        discounts=np.full(count * BATCH, agent.gamma, np.float32),
    )

    def run() -> None:
        policy = agent.policy
        states = policy.qf_state, policy.actor_state, agent.ent_coef_state, agent.key
        *states, losses = agent._train(agent.tau, agent.target_entropy, count, data, 1, 0, *states)
        policy.qf_state, policy.actor_state, agent.ent_coef_state, agent.key = states
        jax.block_until_ready(losses)

    return run


def steps(env: str, replay_ratio: int, count: int) -> Callable[[], object]:
    """So many steps in an environment, each with as many updates as the replay ratio says."""
    agent = sbx.SAC(
        "MlpPolicy", env, gradient_steps=replay_ratio, learning_starts=BATCH, buffer_size=100_000, **SETTINGS
    )
    agent.learn(2 * BATCH)
    return lambda: agent.learn(count, reset_num_timesteps=False)
