"""Which library multiplies matrices: MKL, or oneDNN where that is faster.

MKL keeps to AVX2 on processors that are not Intel's; oneDNN uses AVX-512 on all that have it, and there multiplies
large matrices twice as fast, while small ones suffer from 10 us of preparations per call. Torch leaves float32 products
to oneDNN only if they may be rounded to bfloat16. Without AMX that gains nothing, so oneDNN does not: results are
float32's, which `_onednn_is_faster` verifies.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import torch

LARGE = 1_000_000
"""Multiplications in one product from which on oneDNN pays."""

_setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


class _OneDNN:
    """Within it, torch's products of float32 matrices on the CPU are oneDNN's."""

    def __enter__(self) -> None:
        self._before = _setting.fp32_precision
        _setting.fp32_precision = "bf16"

    def __exit__(self, *error: object) -> None:
        _setting.fp32_precision = self._before


_ONEDNN, _MKL = _OneDNN(), nullcontext()


def library_for(multiplications: int) -> AbstractContextManager[None]:
    """Where to compute products with so many multiplications per run.

    By the size of one product, not of all in a batch: a run's bits must not depend on how many it is stacked with.
    """
    return _ONEDNN if multiplications >= LARGE and _onednn_is_faster() else _MKL


@lru_cache
def _onednn_is_faster() -> bool:
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch
        return False
    processor = torch.cpu.get_capabilities()
    if not processor.get("avx512_f") or processor.get("amx_tile") or not torch.backends.mkldnn.is_available():
        return False
    length = 256
    matrix = torch.full((1, length, length), 1 + 2.0**-12)  # not a number of bfloat16's
    with _ONEDNN:
        product = torch.bmm(matrix, torch.eye(length)[None])
    return torch.equal(product, matrix)
