"""AdaLin's kernels in C++: an accelerator, without which everything works.

The library is a plain shared object, built by pip or `make setup` from the sources in this folder, once for each
instruction set: `v4` (AVX-512), `v3` (AVX2), and `base`, which is what every processor of its kind has. The one that
torch has chosen for itself is loaded, or the one that `ADALIN_ISA` names; `ADALIN_ISA=none` loads none.
"""

from adalin.native._layer import (
    Function,
    Outcome,
    adalin_backward,
    adalin_forward,
    dense_channels_last,
    gate,
    points,
)
from adalin.native._library import describe, isa, library, load
from adalin.native._memory import aligned_zeros, padded
from adalin.native._network import ActivationKind, Conv, Data, GramState, LinearLayer, Network
from adalin.native._noise import FreshNumbers, Perturbation, Region
from adalin.native._pass import Pass, PassKind

__all__ = [
    "ActivationKind",
    "Conv",
    "Data",
    "FreshNumbers",
    "Function",
    "GramState",
    "LinearLayer",
    "Network",
    "Outcome",
    "Pass",
    "PassKind",
    "Perturbation",
    "Region",
    "adalin_backward",
    "adalin_forward",
    "aligned_zeros",
    "dense_channels_last",
    "describe",
    "gate",
    "isa",
    "library",
    "load",
    "padded",
    "points",
]
