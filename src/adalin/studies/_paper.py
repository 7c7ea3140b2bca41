"""The paper's own settings where they are not the benchmark's (its appendix "Hyper-parameters")."""

from typing import Any

from adalin.methods import Method
from adalin.streams import Benchmark

MAIN_BENCHMARKS = (
    "permuted-mnist",
    "class-split-cifar100",
    "shuffled-label-cifar10",
    "random-label-mnist",
    "random-label-cifar10",
)
"""Benchmarks of the main figure."""
MAIN_METHODS = ("baseline", "adalin", "fourier", "crelu", "linear", "scratch", "l2", "shrink-perturb")
"""Methods of the main figure, in its order."""
RANDOM_LABELS = ("random-label-mnist", "random-label-cifar10")
"""Benchmarks where nothing can be transferred: what a network shows is that it can still learn."""
TESTED = ("permuted-mnist", "shuffled-label-cifar10", "class-split-cifar100")
"""Benchmarks of the main figure that have test images."""
SWEEP_SEEDS = (0, 1, 2)
"""Seeds on which hyper-parameters are chosen, and no result is reported."""
REPORT_SEEDS = (3, 4, 5)
"""Seeds on which results are reported."""


def hyper_parameters(benchmark: str, method: str) -> dict[str, Any]:
    """lr and batch size that the paper chose for a method, where they are not the benchmark's (1e-2 and 16)."""
    is_fourier = Method.parse(method).activation.name == "fourier"
    if benchmark.startswith("random-label-cifar10") and is_fourier:
        return {"lr": 1e-3, "batch_size": 32}
    return {}


def chosen_by_paper(benchmark: Benchmark, method: str) -> dict[str, Any]:
    """lr and batch size that the paper has for a method."""
    own = {"lr": benchmark.settings.lr, "batch_size": benchmark.settings.batch_size}
    return own | hyper_parameters(benchmark.name, method)


PAPER_HOURS = {
    "permuted-mnist": "1 h, RTX 3080",
    "random-label-mnist": "1.5 h, RTX 3080",
    "shuffled-label-cifar10": "2.5 h, L40S",
    "random-label-cifar10": "6 h, L40S",
    "class-split-cifar100": "1 h, RTX 3080",
}
"""Training times of the paper's table "Benchmarks, Used GPUs, and Training Time"."""
