"""An episode of a trained agent, to look at."""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adalin.rl._build import SACRun, environment_of
from adalin.rl._environment import Environment, is_mujoco
from adalin.rl._loop import Agent
from adalin.runs import RunFolder

PIXELS = 240


@dataclass(frozen=True)
class Episode:
    """What was seen, from the start to the end."""

    frames: list[NDArray[np.uint8]]
    """One before each step and one after the last."""
    episode_return: float
    """Sum of the rewards."""


def play(run: SACRun, folder: RunFolder) -> Episode:
    """One episode of the deterministic policy of a run's last checkpoint, drawn without a screen."""
    checkpoint = folder.load(lambda message: None)
    if checkpoint is None or not checkpoint.tensors:
        raise ValueError(f"{folder.path} has no agent to show: it was not trained there")
    if "actor" in checkpoint.tensors:
        raise ValueError(f"{folder.path} has an agent of an older version, which cannot be shown: train it anew")
    size = {}
    if is_mujoco(environment_of(run)):
        os.environ.setdefault("MUJOCO_GL", "egl")  # read when MuJoCo draws for the first time
        size = {"width": PIXELS, "height": PIXELS}
    try:
        environment = Environment(environment_of(run), run.seed, "eval", render_mode="rgb_array", **size)
        frames = [environment.render()]
    except Exception as error:  # of whatever library draws
        hint = "MuJoCo needs EGL or OSMesa, in Debian libegl1 or libosmesa6, and MUJOCO_GL=egl or osmesa"
        raise ValueError(f"cannot draw {environment_of(run)}: {error}; {hint}") from error
    agent = Agent(run, environment)
    agent.restore(checkpoint)
    over = False
    while not over:
        over = environment.step(agent.sac.act(environment.observation, deterministic=True)).over
        frames.append(environment.render())
    environment.close()
    return Episode(frames, environment.episode_return)
