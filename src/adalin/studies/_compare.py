"""Results compared as in the paper: on seeds that had no part in choosing settings."""

from collections.abc import Sequence
from itertools import chain

from adalin.report import Summary, by_benchmark
from adalin.runs import Result
from adalin.studies._paper import SWEEP_SEEDS


def compare(results: Sequence[Result]) -> dict[tuple[str, str], list[Summary]]:
    """The summaries of each (benchmark, data); seeds that choose hyper-parameters are kept apart."""
    return by_benchmark(results, choosing=SWEEP_SEEDS)


def compare_all(results: Sequence[Result]) -> list[Summary]:
    """The summaries of all benchmarks, one benchmark after the other."""
    return list(chain.from_iterable(compare(results).values()))
