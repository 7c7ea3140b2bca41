"""Memory that kernels read and write: how long, where, of which type."""

import ctypes

import torch
from torch import Tensor

STEP = 16
"""Numbers that the kernels treat together: rows of weights are padded to so many."""
ALIGNMENT = 64
"""Bytes."""


def padded(count: int) -> int:
    """The next multiple of 16."""
    return -(-count // STEP) * STEP


def aligned_zeros(count: int, dtype: torch.dtype) -> Tensor:
    """Zeros that begin at a cache line."""
    size = dtype.itemsize
    values = torch.zeros(count + ALIGNMENT // size, dtype=dtype)
    start = -values.data_ptr() % ALIGNMENT // size
    return values[start : start + count]


def real_type(kernels: ctypes.CDLL) -> torch.dtype:
    """What a library computes with: float32, but for the one that tests build."""
    return torch.float64 if kernels.adalin_real_bytes() == 8 else torch.float32


def address_of(tensor: Tensor, name: str, dtype: torch.dtype, count: int, alignment: int = 0) -> int:
    """The address of a tensor that a kernel may read or write `count` numbers of."""
    if tensor.dtype is not dtype or not tensor.is_cpu:
        raise ValueError(f"{name} must be {dtype} on the CPU, not {tensor.dtype} on {tensor.device}")
    if tensor.numel() != count:
        raise ValueError(f"{name} must have {count} elements, not {tensor.numel()}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"the strides of {name} are {tensor.stride()}, not those of a contiguous {tuple(tensor.shape)}"
        )
    address = tensor.data_ptr()
    if address % (alignment or dtype.itemsize) or (address == 0 and count > 0):
        raise ValueError(f"{name} is not aligned to {alignment or dtype.itemsize} bytes")
    return address
