"""How one network learns: engines compute gradients, a learner makes steps of them."""

from adalin.engine._attach import Attached, attach
from adalin.engine._engine import Engine, choose_engine, make_net
from adalin.engine._fresh import FreshWeights
from adalin.engine._gram import Gram
from adalin.engine._learner import NETWORK, Learner, Learning
from adalin.engine._module_net import ModuleNet
from adalin.engine._native_net import NativeNet
from adalin.engine._net import Net, Steps, Update
from adalin.engine._preset import PLAIN, Preset, presets

__all__ = [
    "NETWORK",
    "PLAIN",
    "Attached",
    "Engine",
    "FreshWeights",
    "Gram",
    "Learner",
    "Learning",
    "ModuleNet",
    "NativeNet",
    "Net",
    "Preset",
    "Steps",
    "Update",
    "attach",
    "choose_engine",
    "make_net",
    "presets",
]
