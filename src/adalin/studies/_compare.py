"""Results compared as in the paper: on seeds that had no part in choosing settings, methods in its order."""

from collections.abc import Sequence
from itertools import chain

from adalin.report import Summary, by_benchmark
from adalin.runs import Result
from adalin.studies._paper import MAIN_METHODS, SWEEP_SEEDS


def compare(results: Sequence[Result]) -> dict[tuple[str, str], list[Summary]]:
    """The summaries of each (benchmark, data); seeds that choose hyper-parameters are kept apart.

    The methods of the paper's main figure come first.
    """
    return by_benchmark(results, choosing=SWEEP_SEEDS, order=MAIN_METHODS)


def compare_all(results: Sequence[Result]) -> list[Summary]:
    """The summaries of all benchmarks, one benchmark after the other."""
    return list(chain.from_iterable(compare(results).values()))
