"""How networks are trained: MLPs in stacks with their gradients in closed form, any other by autograd."""

from adalin.engine._gram import Gram
from adalin.engine._kernels import Kernel, has_kernel, make_kernel, padded, row_of_ones
from adalin.engine._mlp_stack import MLPStack
from adalin.engine._module_net import ModuleNet
from adalin.engine._module_stack import ModuleStack
from adalin.engine._native_net import NativeNet
from adalin.engine._net import Net, Steps, Update
from adalin.engine._preset import PLAIN, Preset, presets
from adalin.engine._products import library_for
from adalin.engine._stack import NetworkSpec, Stack

__all__ = [
    "PLAIN",
    "Gram",
    "Kernel",
    "MLPStack",
    "ModuleNet",
    "ModuleStack",
    "NativeNet",
    "Net",
    "NetworkSpec",
    "Preset",
    "Stack",
    "Steps",
    "Update",
    "has_kernel",
    "library_for",
    "make_kernel",
    "padded",
    "presets",
    "row_of_ones",
]
