"""Convolutional layers' kernels: convolution, activation and max-pooling, and their gradients."""

import ctypes
from enum import IntEnum


class Kind(IntEnum):
    PLAIN = 1
    ADALIN = 2
    INTERPOLATION = 3
    CRELU = 4
    FOURIER = 5
