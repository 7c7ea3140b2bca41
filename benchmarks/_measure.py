"""How a claim is measured and recorded."""

import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from adalin import native


@dataclass(frozen=True)
class Result:
    """A measured value and the bar it is held against; or why it was not measured."""

    name: str
    value: float | None
    unit: str
    bar: str
    ok: bool | None
    skipped: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name:70} {'-':>8} {self.unit:14} bar {self.bar:8} skipped: {self.skipped}"
        verdict = {True: "ok", False: "MISSED", None: ""}[self.ok]
        bar = f"bar {self.bar}" if self.bar else ""
        return f"{self.name:70} {self.value:8.3g} {self.unit:14} {bar:12} {verdict}"


def at_most(bar: float, name: str, value: float, unit: str) -> Result:
    return Result(name, _rounded(value), unit, f"<= {bar:g}", value <= bar)


def at_least(bar: float, name: str, value: float, unit: str) -> Result:
    return Result(name, _rounded(value), unit, f">= {bar:g}", value >= bar)


def noted(name: str, value: float, unit: str) -> Result:
    """A figure without a bar."""
    return Result(name, _rounded(value), unit, "", None)


def skipped(bar: float, name: str, unit: str, reason: str) -> Result:
    return Result(name, None, unit, f">= {bar:g}", None, reason)


def by_isa(avx512: float, avx2: float) -> float:
    """A bar that depends on how wide the processor's vectors are."""
    return avx512 if native.isa() == "v4" else avx2


@dataclass(frozen=True)
class Ratio:
    """A subject's time as a multiple of the reference's."""

    fastest: float
    """Of the fastest calls: what the code costs, since anything else on the machine only makes a call slower."""
    median: float
    """Of the median calls: what it cost here, on a machine shared with others."""


Times = Mapping[str, list[float]]
"""Seconds of each call, by subject."""


def in_turns(
    subjects: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 20,
    calls: int = 20,
    clock: Callable[[], float] = time.process_time,
) -> Times:
    """Time subjects that take turns, so that all of them see the machine at all times."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for run in subjects.values():
        run()  # compilation, allocator, caches
    for _ in range(rounds):
        for name, run in subjects.items():
            for _ in range(calls):
                start = clock()
                run()
                times[name].append(clock() - start)
    return times


def ratio(times: Times, subject: str, reference: str) -> Ratio:
    own, of = times[subject], times[reference]
    return Ratio(min(own) / min(of), statistics.median(own) / statistics.median(of))


def side_by_side(
    subjects: Mapping[str, Callable[[], object]],
    reference: str,
    *,
    rounds: int = 20,
    calls: int = 20,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Ratio]:
    """Every subject's time as a multiple of the reference's."""
    times = in_turns(subjects, rounds=rounds, calls=calls, clock=clock)
    return {name: ratio(times, name, reference) for name in subjects}


@contextmanager
def one_thread(place: int = -1) -> Iterator[None]:
    """As the laboratory trains: one thread, denormals are 0; on one core, where rivals make no more threads either.

    Processes at the same time have different places among the cores.
    """
    threads, cores = torch.get_num_threads(), _cores()
    _keep_to({sorted(cores)[place % len(cores)]} if cores else set())
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
        _keep_to(cores)


def missing_rival(*modules: str) -> str:
    """Why a rival cannot be measured here; empty if it can. Comes before its first import, which reads the setting."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: pip install '.[rivals]'"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return ""


def _cores() -> set[int]:
    """Those that this process may run on; empty where systems do not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _keep_to(cores: set[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
