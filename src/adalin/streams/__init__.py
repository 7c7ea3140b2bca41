"""Streams of tasks, and the benchmarks made of them."""

from adalin.streams._benchmarks import Benchmark, benchmarks, get_benchmark, has_benchmark, register_benchmark
from adalin.streams._stream import SCALINGS, Scaling, Stream, Task

__all__ = [
    "SCALINGS",
    "Benchmark",
    "Scaling",
    "Stream",
    "Task",
    "benchmarks",
    "get_benchmark",
    "has_benchmark",
    "register_benchmark",
]
