"""How a claim is measured and recorded."""

import statistics
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


def at_least(bar: float, name: str, value: float, unit: str) -> Result:
    return Result(name, _rounded(value), unit, f">= {bar:g}", value >= bar)


@dataclass(frozen=True)
class Ratio:
    """A subject's time as a multiple of the reference's."""

    fastest: float
    """Of the fastest calls: what the code costs, since anything else on the machine only makes a call slower."""
    median: float
    """Of the median calls: what it cost here, on a machine shared with others."""


def side_by_side(
    subjects: Mapping[str, Callable[[], object]],
    reference: str,
    *,
    rounds: int = 20,
    calls: int = 20,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Ratio]:
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
    of = times[reference]
    return {
        name: Ratio(min(own) / min(of), statistics.median(own) / statistics.median(of)) for name, own in times.items()
    }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
