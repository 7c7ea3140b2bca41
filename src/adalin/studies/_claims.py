"""The paper's claims, each as the comparisons that decide it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from adalin.report import Summary, Verdict
from adalin.studies._alpha_checks import Overhead, SaturatedAlphas, UnsaturatedAlphas
from adalin.studies._checks import (
    Alike,
    Changes,
    Check,
    Closer,
    Collapses,
    Comparable,
    Highest,
    LowestOverall,
    PlasticityCheck,
)
from adalin.studies._evidence import PaperRuns
from adalin.studies._paper import MAIN_BENCHMARKS, MAIN_METHODS, RANDOM_LABELS, TESTED
from adalin.studies._replay_ratio import ENVIRONMENTS, GapGrows

STEEP = 0.1
"""A "steep" fall of sign entropy: a tenth at least."""
CLEAR = 0.05
"""Test accuracy that falls, weight norm that rises: by a twentieth at least, else it counts as steady."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the comparisons that decide it."""

    id: str
    """Short name: "C1"."""
    text: str
    """The sentence."""
    checks: tuple[Check, ...]
    """Comparisons, all of which must hold."""

    def judge(self, runs: PaperRuns) -> Verdict:
        """What the runs say."""
        return Verdict(self.id, self.text, tuple(check.judge(runs) for check in self.checks), source="the paper")


def judge_claims(summaries: Sequence[Summary]) -> list[Verdict]:
    """All claims, by whatever has been run."""
    runs = PaperRuns(summaries)
    return [claim.judge(runs) for claim in CLAIMS]


def _keeps(benchmarks: Sequence[str], *methods: str) -> tuple[Check, ...]:
    return tuple(PlasticityCheck(benchmark, method, kept=True) for benchmark, method in product(benchmarks, methods))


def _loses(benchmarks: Sequence[str], *methods: str) -> tuple[Check, ...]:
    return tuple(PlasticityCheck(benchmark, method, kept=False) for benchmark, method in product(benchmarks, methods))


def _rivals(method: str) -> tuple[str, ...]:
    return tuple(other for other in MAIN_METHODS if other != method)


# With ReLU all gates are one: |phi'| / L is 0 or 1, where they agree. The paper does not say which base it took.
_GATES = ("adalin-tanh", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic")

CLAIMS = (
    Claim(
        "C1",
        "ReLU, Tanh and GELU lose plasticity on random-label MNIST; CReLU and PReLU do not.",
        (
            *_loses(["random-label-mnist"], "baseline", "tanh", "gelu"),
            *_keeps(["random-label-mnist"], "crelu", "prelu"),
        ),
    ),
    Claim(
        "C2",
        "AdaLin with ReLU, Tanh and GELU keeps plasticity on random-label MNIST.",
        _keeps(["random-label-mnist"], "adalin", "adalin-tanh", "adalin-gelu"),
    ),
    Claim("C3", "AdaLin keeps plasticity on all five benchmarks.", _keeps(MAIN_BENCHMARKS, "adalin")),
    Claim(
        "C4",
        "AdaLin beats Scratch where knowledge transfers: Permuted MNIST, shuffled CIFAR-10, class-split CIFAR-100.",
        tuple(Highest(benchmark, "adalin", ("scratch",)) for benchmark in TESTED),
    ),
    Claim(
        "C5",
        "CReLU collapses on class-split CIFAR-100 after about 10 tasks.",
        (Collapses("class-split-cifar100", "crelu", between=(6, 15)),),
    ),
    Claim(
        "C6",
        "Baseline collapses on both random-label benchmarks.",
        tuple(Collapses(benchmark, "baseline") for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C7",
        "Deep Fourier and L2 lose plasticity on shuffled CIFAR-10.",
        _loses(["shuffled-label-cifar10"], "fourier", "l2"),
    ),
    Claim(
        "C8",
        "Deep Linear never loses plasticity, yet scores lowest overall.",
        (*_keeps(MAIN_BENCHMARKS, "linear"), LowestOverall(MAIN_BENCHMARKS, "linear", _rivals("linear"))),
    ),
    Claim(
        "C9",
        "AdaLin has the best test accuracy on class-split CIFAR-100; that of Deep Fourier and Deep Linear falls on "
        "shuffled CIFAR-10.",
        (
            Highest("class-split-cifar100", "adalin", _rivals("adalin"), "test_accuracy"),
            Changes("shuffled-label-cifar10", "fourier", "test_accuracy", by=-CLEAR),
            Changes("shuffled-label-cifar10", "linear", "test_accuracy", by=-CLEAR),
        ),
    ),
    Claim(
        "C10",
        "AdaLin is ahead of ReLU, CReLU and Deep Fourier on class-incremental CIFAR-100 with ResNet-18.",
        (
            Highest(
                "class-incremental-cifar100", "adalin", ("baseline", "crelu", "fourier"), "test_accuracy", at_end=True
            ),
        ),
    ),
    Claim(
        "C11",
        "The gap between AdaLin and ReLU in SAC grows with the replay ratio.",
        tuple(GapGrows(environment) for environment in ENVIRONMENTS),
    ),
    Claim(
        "C12",
        "An alpha per layer or per network loses plasticity, one per neuron does not.",
        # Each on the benchmarks for which the paper's text says so.
        (
            *_loses(RANDOM_LABELS, "adalin:granularity=layer"),
            *_loses(("class-split-cifar100", "random-label-cifar10"), "adalin:granularity=network"),
            *_keeps((*RANDOM_LABELS, "class-split-cifar100"), "adalin"),
        ),
    ),
    Claim(
        "C13",
        "Without the gate, AdaLin on ReLU does worse everywhere, and on GELU loses plasticity on random-label MNIST.",
        (
            *(Highest(benchmark, "adalin", ("adalin:gate=none",)) for benchmark in MAIN_BENCHMARKS),
            *_loses(["random-label-mnist"], "adalin-gelu:gate=none"),
        ),
    ),
    Claim(
        "C14",
        "The gate's form hardly matters.",
        tuple(Alike(benchmark, _GATES) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C15",
        "Learnable interpolation collapses on both random-label benchmarks.",
        tuple(Collapses(benchmark, "interpolation") for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C16",
        "Sign entropy falls steeply for Baseline and stays closer to Scratch for AdaLin.",
        (
            *(Changes(benchmark, "baseline", "sign_entropy", by=-STEEP) for benchmark in MAIN_BENCHMARKS),
            *(Closer(benchmark, "adalin", "baseline", "scratch", "sign_entropy") for benchmark in MAIN_BENCHMARKS),
        ),
    ),
    Claim(
        "C17",
        "Baseline's weight norm rises everywhere; srank: AdaLin is near Scratch, CReLU is highest everywhere.",
        (
            *(Changes(benchmark, "baseline", "weight_norm", by=CLEAR) for benchmark in MAIN_BENCHMARKS),
            *(Comparable(benchmark, "adalin", "scratch", "srank") for benchmark in MAIN_BENCHMARKS),
            *(Highest(benchmark, "crelu", _rivals("crelu"), "srank") for benchmark in MAIN_BENCHMARKS),
        ),
    ),
    Claim(
        "C18",
        "Saturated neurons take small negative alphas; unsaturated ones settle early and stay.",
        (
            *(SaturatedAlphas(benchmark) for benchmark in RANDOM_LABELS),
            *(UnsaturatedAlphas(benchmark) for benchmark in RANDOM_LABELS),
        ),
    ),
    Claim(
        "C19",
        "AdaLin adds 210 of 89,610 parameters to the MLP and 32 of 39,796 to the CNN.",
        (
            Overhead("mlp", (1, 28, 28), 10, 210, 89_610, "210 with the 10 outputs, which have no activation"),
            Overhead("cnn", (3, 32, 32), 100, 32, 39_796, "32 without the hidden layer of 64 units"),
        ),
    ),
)
"""C1 to C19."""
