"""Optimisers, as parts of a method."""

from adalin.optim._optimizer import Optimizer, State

__all__ = ["Optimizer", "State"]
