"""Weights of newly initialised networks, which any place of any step has by itself: see `noise.h`."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from adalin.native._library import library
from adalin.native._memory import address_of, padded, real_type

GOLDEN = 0x9E37_79B9_7F4A_7C15
WORD = 2**64
NUMBERS = 4
"""Numbers in a word, 16 bits each."""


class Region(ctypes.Structure):
    """`Region` of `noise.h`: weights of one layer, or its biases, in rows with padding; uniform within `bound`."""

    _fields_ = (*((name, ctypes.c_int64) for name in ("offset", "rows", "columns")), ("bound", ctypes.c_double))

    offset: int
    rows: int
    columns: int
    bound: float


class _Perturbation(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_double) for name in ("shrink", "noise")),
        ("key", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("words_per_step", "count")),
        ("regions", ctypes.POINTER(Region)),
    )


class Perturbation:
    """Flat weights become shrink * weights + noise * new ones, step after step, by a library's kernel.

    Args:
        weights: the flat weights, which regions cover.
        regions: their layers.
        shrink: factor of the weights.
        noise: factor of new ones.
        kernels: the library.
    """

    def __init__(
        self, weights: Tensor, regions: Sequence[Region], shrink: float, noise: float, kernels: ctypes.CDLL
    ) -> None:
        self._count, self._kernels, self._weights = weights.numel(), kernels, weights
        if any(region.offset < 0 or end_of(region) > self._count for region in regions):
            raise ValueError(f"the layers need more than {self._count} weights")
        self._address = address_of(weights, "the weights", real_type(kernels), self._count)
        self._regions = (Region * len(regions))(*regions)
        words = self._count // NUMBERS
        self._own = _Perturbation(shrink, noise, 0, words, len(regions), self._regions)

    @property
    def address(self) -> int:
        """What kernels take that perturb as they train."""
        return ctypes.addressof(self._own)

    def start(self, key: int, step: int) -> None:
        """Let the next step be this one of a key's; each moves on to the one after it."""
        self._own.key = (key + step * self._own.words_per_step * GOLDEN) % WORD

    def __call__(self) -> None:
        """Perturb, and move on."""
        self._kernels.adalin_perturb(self._address, self.address, self._count)


class FreshNumbers:
    """New weights for regions of a flat tensor: by a kernel where there is one, else by numpy, the same bits.

    Args:
        flat: tensor that takes them; 0 between its regions.
        regions: layers.
    """

    def __init__(self, flat: Tensor, regions: Sequence[Region]) -> None:
        self._flat, kernels = flat, library()
        self._kernel: Perturbation | None = None
        if kernels is not None and flat.dtype is real_type(kernels):
            self._kernel = Perturbation(flat, regions, 0.0, 1.0, kernels)
            return
        self._factors = torch.zeros_like(flat)
        for region in regions:
            rows = self._factors[region.offset : end_of(region)].view(region.rows, padded(region.columns))
            rows[:, : region.columns] = region.bound / 2**15
        import numpy as np  # torch alone must do for layers, convert and the monitor

        self._places = np.arange(1, flat.numel() // NUMBERS + 1, dtype=np.uint64) * np.uint64(GOLDEN)

    def draw(self, key: int, step: int) -> None:
        """Fill the flat tensor with the numbers of a step."""
        if self._kernel is not None:
            self._kernel.start(key, step)
            self._kernel()
            return
        import numpy as np

        z = self._places + np.uint64((key + step * len(self._places) * GOLDEN) % WORD)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58_476D_1CE4_E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D0_49BB_1331_11EB)
        z ^= z >> np.uint64(31)
        z |= np.uint64(0x0001_0001_0001_0001)
        self._flat.copy_(torch.from_numpy(z.view(np.int16))).mul_(self._factors)


def end_of(region: Region) -> int:
    """The place behind a region's last row."""
    return region.offset + region.rows * padded(region.columns)
