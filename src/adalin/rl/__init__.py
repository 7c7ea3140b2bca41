"""Reinforcement learning: SAC whose replay ratio can grow, with any registered activation."""

from adalin.rl._build import SACRun, environment_of
from adalin.rl._kind import SoftActorCritic
from adalin.rl._play import Episode, play
from adalin.runs import kinds

__all__ = ["Episode", "SACRun", "SoftActorCritic", "environment_of", "play"]

kinds.register(SoftActorCritic.name, SoftActorCritic())
