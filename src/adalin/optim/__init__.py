"""Optimisers, as parts of a method. Those of torch.optim are the specification."""

from adalin.optim._adam import Adam, AdamW
from adalin.optim._moments import State, named_memory, separate_steps
from adalin.optim._optimizer import Optimizer
from adalin.optim._rmsprop import RMSprop
from adalin.optim._schedule import SCHEDULES
from adalin.optim._sgd import SGD

__all__ = ["SCHEDULES", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "State", "named_memory", "separate_steps"]
