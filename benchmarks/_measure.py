"""How a claim is measured and recorded."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Result:
    """A measured value and the bar it is held against."""

    name: str
    value: float
    unit: str
    bar: str
    ok: bool


def at_most(bar: float, name: str, value: float, unit: str) -> Result:
    return Result(name, _rounded(value), unit, f"<= {bar:g}", value <= bar)


def side_by_side(
    subjects: Mapping[str, Callable[[], object]], reference: str, *, rounds: int = 15, seconds: float = 0.05
) -> dict[str, float]:
    """Each subject's time as a multiple of the reference's.

    The subjects take turns in every round, so that a slow moment of the machine hits all of them; the result is the
    median over rounds of the ratio within a round.
    """
    repeats = {}
    for name, run in subjects.items():
        run()  # compilation, allocator, caches
        start = time.perf_counter()
        run()
        repeats[name] = max(1, math.ceil(seconds / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {
        name: statistics.median(own / of for own, of in zip(times[name], times[reference], strict=True))
        for name in subjects
    }


def _rounded(value: float, digits: Literal[3] = 3) -> float:
    return float(f"{value:.{digits}g}")
