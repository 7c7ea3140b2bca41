"""Reinforcement learning: SAC whose replay ratio can grow, with any registered activation."""

from adalin.rl._play import Episode, play
from adalin.rl._run import SACRun, define_sac_runs

__all__ = ["Episode", "SACRun", "define_sac_runs", "play"]
