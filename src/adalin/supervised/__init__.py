"""Runs on streams of tasks: how they are defined, and the loop that trains them."""

from adalin.runs import kinds
from adalin.supervised._kind import Supervised
from adalin.supervised._manifest import PROTOCOL

__all__ = ["PROTOCOL", "Supervised"]

kinds.register(Supervised.name, Supervised())
