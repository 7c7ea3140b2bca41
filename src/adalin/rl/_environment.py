"""One environment whose state can be saved to the bit."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adalin._seeds import derive
from adalin.rl._sac import Action

Observation = NDArray[np.float64] | NDArray[np.float32]
HINT = "pip install 'adalin[rl]'"
LONGEST_EPISODE = 10_000
"""Steps after which an episode is cut off where the environment has no limit of its own: it might never end."""
DERIVED = ("xpos", "xipos")
"""Positions of bodies: not part of MuJoCo's state, but rewards compare them with those before the step."""


@dataclass(frozen=True)
class Transition:
    """What came of one action."""

    reward: float
    terminated: bool
    """The state has no future; not so when only the time was up."""
    over: bool
    """The episode has ended, for either reason."""
    next_observation: Observation


class Environment:
    """Episodes one after the other; each starts from a seed of its own, made from the run's and its number."""

    def __init__(self, name: str, seed: int, purpose: str, **options: Any) -> None:
        self._env, self._seed, self._purpose = make_environment(name, **options), seed, purpose
        self.start(0)

    @property
    def observations(self) -> int:
        """Numbers in an observation."""
        return int(self._env.observation_space.shape[0])

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """Least and greatest actions."""
        space = self._env.action_space
        return torch.tensor(space.low, dtype=torch.float32), torch.tensor(space.high, dtype=torch.float32)

    def start(self, episode: int) -> None:
        """Begin an episode, by its number."""
        self.episode = episode
        self.observation: Observation
        self.observation, _ = self._env.reset(seed=derive(self._seed, self._purpose, episode) % 2**32)
        self.steps, self.episode_return = 0, 0.0
        self._actions: list[Action] = []

    def step(self, action: Action) -> Transition:
        """Act; if the episode is over, another one must be started."""
        self.observation, reward, terminated, truncated, _ = self._env.step(action)
        self.steps += 1
        self.episode_return += float(reward)
        if self._mujoco() is None:
            self._actions.append(action)
        over = bool(terminated or truncated)
        return Transition(float(reward), bool(terminated), over, self.observation)

    def state(self) -> dict[str, Any]:
        """For JSON: where it is in its episode."""
        return {"episode": self.episode, "steps": self.steps, "episode_return": self.episode_return}

    def simulator_state(self) -> dict[str, Tensor]:
        """MuJoCo's, to the bit; of other environments the actions so far, with which the episode is played again."""
        if (simulator := self._mujoco()) is None:
            return {"simulator.actions": torch.tensor(np.array(self._actions, dtype=np.float32))}
        import mujoco

        model, data = simulator
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        values = np.empty(mujoco.mj_stateSize(model, kind))
        mujoco.mj_getState(model, data, values, kind)
        tensors = {"state": values, "observation": np.asarray(self.observation)}
        tensors |= {name: getattr(data, name) for name in DERIVED}
        return {f"simulator.{name}": torch.tensor(value) for name, value in tensors.items()}

    def restore(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on from what `state` and `simulator_state` gave."""
        self.start(state["episode"])
        if (simulator := self._mujoco()) is None:
            for action in tensors["simulator.actions"].numpy():
                self.step(action)
        else:
            import mujoco

            model, data = simulator
            mujoco.mj_setState(model, data, tensors["simulator.state"].numpy(), mujoco.mjtState.mjSTATE_INTEGRATION)
            for name in DERIVED:
                getattr(data, name)[:] = tensors[f"simulator.{name}"].numpy()
            self.observation = tensors["simulator.observation"].numpy()
            if (limit := self._time_limit()) is not None:
                limit._elapsed_steps = state["steps"]
        self.steps, self.episode_return = state["steps"], state["episode_return"]

    def render(self) -> NDArray[np.uint8]:
        """What it looks like now, if it was made with a render mode."""
        image: NDArray[np.uint8] = self._env.render()
        return image

    def close(self) -> None:
        """Release what it holds."""
        self._env.close()

    def _mujoco(self) -> tuple[Any, Any] | None:
        inner = self._env.unwrapped
        return (inner.model, inner.data) if hasattr(inner, "do_simulation") else None

    def _time_limit(self) -> Any:
        env = self._env
        while env is not env.unwrapped and "_elapsed_steps" not in vars(env):
            env = env.env
        return env if "_elapsed_steps" in vars(env) else None


def make_environment(name: str, **options: Any) -> Any:
    """gymnasium's environment of that name, whose actions must be bounded numbers."""
    gymnasium = _import("gymnasium")
    with warnings.catch_warnings(), _quiet_mujoco() if is_mujoco(name) else nullcontext():
        # The paper's are v4; gymnasium would rather have v5, which is another environment.
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        if gymnasium.spec(name).max_episode_steps is None:
            options["max_episode_steps"] = LONGEST_EPISODE
        env = gymnasium.make(name, **options)
    space, seen = env.action_space, env.observation_space
    box = gymnasium.spaces.Box
    if not (isinstance(space, box) and space.is_bounded() and len(space.shape) == 1):
        raise ValueError(f"SAC needs bounded continuous actions, which {name} has not: {space}")
    if not (isinstance(seen, box) and len(seen.shape) == 1):
        raise ValueError(f"SAC here needs observations that are vectors, which those of {name} are not: {seen}")
    return env


def check_environment(name: str) -> None:
    """Raises ValueError unless there is such an environment and what it needs is installed."""
    gymnasium = _import("gymnasium")
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise ValueError(f"there is no environment {name!r}: {' '.join(str(error).split())}") from None
    try:
        make_environment(name).close()
    except (ImportError, gymnasium.error.Error) as error:
        raise ValueError(f"{name} cannot be used: {' '.join(str(error).split())}") from None


@cache
def simulator_version(name: str) -> str:
    """Of what an environment's numbers depend on: "gymnasium 1.4.0, mujoco 4.0.0"."""
    _import("gymnasium")
    parts = ["gymnasium", *(["mujoco"] if is_mujoco(name) else [])]
    return ", ".join(f"{part} {version(part)}" for part in parts)


@cache
def transition_size(name: str) -> int:
    """Numbers in a transition: observations before and after, an action, a reward, and whether it ended."""
    env = make_environment(name)
    return 2 * int(env.observation_space.shape[0]) + int(env.action_space.shape[0]) + 2


def is_mujoco(name: str) -> bool:
    """Whether an environment is one of MuJoCo's."""
    gymnasium = _import("gymnasium")
    spec = gymnasium.registry.get(name)
    return spec is not None and "mujoco" in str(spec.entry_point)


@contextmanager
def _quiet_mujoco() -> Iterator[None]:
    """Without its remarks on the models of gymnasium, which it would also write to a file in the current folder."""
    mujoco = _import("mujoco")
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ValueError(f"SAC needs {name}: {HINT}") from None
