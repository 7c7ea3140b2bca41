"""How a claim is measured and recorded."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


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
    subjects: Mapping[str, Callable[[], object]], reference: str, *, rounds: int = 20, calls: int = 20
) -> dict[str, float]:
    """Each subject's time as a multiple of the reference's.

    The subjects take turns, so that all of them see the machine at all times, and each is judged by its fastest call:
    what else the machine does can only make a call slower.
    """
    fastest = dict.fromkeys(subjects, math.inf)
    for run in subjects.values():
        run()  # compilation, allocator, caches
    for _ in range(rounds):
        for name, run in subjects.items():
            for _ in range(calls):
                start = time.perf_counter()
                run()
                fastest[name] = min(fastest[name], time.perf_counter() - start)
    return {name: seconds / fastest[reference] for name, seconds in fastest.items()}


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
