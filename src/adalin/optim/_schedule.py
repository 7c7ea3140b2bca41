"""Learning rates that change within a task, from epoch to epoch."""

import math
from collections.abc import Callable

from adalin._registry import Registry


def constant(share: float) -> float:
    """The same all the time."""
    return 1.0


def linear(share: float) -> float:
    """Down to 0 at the task's end, by the same amount after each epoch."""
    return 1.0 - share


def cosine(share: float) -> float:
    """Down to 0 at the task's end, slowly at first and at last (Loshchilov & Hutter 2017)."""
    return (1.0 + math.cos(math.pi * share)) / 2


SCHEDULES: Registry[Callable[[float], float]] = Registry(
    "schedule", {"constant": constant, "linear": linear, "cosine": cosine}, plugins=False
)
"""By name: factor of the learning rate in an epoch, given the share of the task's epochs before it."""
