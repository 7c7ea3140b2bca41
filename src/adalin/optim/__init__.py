"""Optimisers, as parts of a method. Those of torch.optim are the specification."""

from adalin.optim._adam import Adam, AdamW
from adalin.optim._optimizer import OPTIMIZERS, Optimizer, State
from adalin.optim._rmsprop import RMSprop
from adalin.optim._schedule import SCHEDULES
from adalin.optim._sgd import SGD

__all__ = ["OPTIMIZERS", "SCHEDULES", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "State"]

for _optimizer in (SGD, Adam, AdamW, RMSprop):
    OPTIMIZERS.register(_optimizer.name, _optimizer)
