"""The paper's claims, each in its own words with the comparisons that judge it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from adalin.report import Summary, Verdict
from adalin.studies._alpha_checks import ExtremeAlphas, MostSaturated, Negligible, SaturatedAlphas, UnsaturatedAlphas
from adalin.studies._checks import (
    Alike,
    AmongBest,
    Changes,
    Check,
    Closer,
    Collapses,
    Comparable,
    FallsMoreThan,
    Highest,
    LosesSomewhere,
    LowestOfLearners,
    NotBehind,
    PlasticityCheck,
    Steady,
)
from adalin.studies._evidence import PaperRuns
from adalin.studies._paper import MAIN_BENCHMARKS, MAIN_METHODS, RANDOM_LABELS, TESTED
from adalin.studies._replay_ratio import ENVIRONMENTS, GapGrows

STEEP = 0.1
"""A "steep" fall: a tenth at least."""
CLEAR = 0.05
"""Test accuracy that drops "significantly", weight norm that rises: by a twentieth at least."""
DECLINED = 0.01
"""Test accuracy that "declined": by a hundredth at least."""
POOR = 0.02
"""Accuracy below AdaLin's by two points at least is poor beside it."""

MNIST, CIFAR, SHUFFLED, SPLIT, PERMUTED = (
    "random-label-mnist",
    "random-label-cifar10",
    "shuffled-label-cifar10",
    "class-split-cifar100",
    "permuted-mnist",
)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the comparisons that judge it."""

    id: str
    """Short name: "C8a"; claims of one number belong together."""
    text: str
    """The sentence in short."""
    quote: str
    """The paper's words."""
    checks: tuple[Check, ...]
    """Comparisons: one for each benchmark, method or environment that the sentence is about."""

    @property
    def number(self) -> str:
        """What claims that belong together share: "C8"."""
        return self.id.rstrip("abcdefghij")

    def judge(self, runs: PaperRuns) -> Verdict:
        """What the runs say."""
        findings = tuple(check.judge(runs) for check in self.checks)
        return Verdict(self.id, self.text, findings, source="the paper", quote=self.quote)


def judge_claims(summaries: Sequence[Summary], numbers: Sequence[str] | None = None) -> list[Verdict]:
    """All claims, or those of some numbers, by whatever has been run."""
    runs = PaperRuns(summaries)
    return [claim.judge(runs) for claim in CLAIMS if numbers is None or claim.number in numbers]


def _keeps(benchmarks: Sequence[str], *methods: str) -> tuple[Check, ...]:
    return tuple(PlasticityCheck(benchmark, method, kept=True) for benchmark, method in product(benchmarks, methods))


def _loses(benchmarks: Sequence[str], *methods: str) -> tuple[Check, ...]:
    return tuple(PlasticityCheck(benchmark, method, kept=False) for benchmark, method in product(benchmarks, methods))


def _rivals(method: str) -> tuple[str, ...]:
    return tuple(other for other in MAIN_METHODS if other != method)


def _norm_rises(*methods: str) -> tuple[Check, ...]:
    """From the first task on: after five tasks of random labels ReLU has died, and its weights stand still."""
    pairs = product(MAIN_BENCHMARKS, methods)
    return tuple(Changes(benchmark, method, "weight_norm", by=CLEAR, first=1) for benchmark, method in pairs)


# With ReLU all gates are one: |phi'| / L is 0 or 1, where they agree. The paper does not say which base it took.
_GATES = ("adalin-tanh", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic")
# The paper's srank is of "the network's weight matrices"; what others call feature rank is of the last hidden layer.
_WEIGHTS, _FEATURES = "weight_srank", "srank"

CLAIMS = (
    Claim(
        "C1a",
        "ReLU, Tanh and GELU lose plasticity on random-label MNIST.",
        "standard activations such as ReLU, GeLU, and Tanh fail to sustain the network's learning capacity, "
        "experiencing significant degradation over time",
        _loses([MNIST], "baseline", "tanh", "gelu"),
    ),
    Claim(
        "C1b",
        "CReLU and PReLU maintain plasticity better than these.",
        "By contrast, alternatives like CReLU and PReLU better maintain plasticity across tasks.",
        tuple(Highest(MNIST, method, ("baseline", "tanh", "gelu"), at_end=True) for method in ("crelu", "prelu")),
    ),
    Claim(
        "C2",
        "AdaLin with ReLU, Tanh and GELU keeps plasticity on random-label MNIST.",
        "AdaLin can help sustain high task accuracy over successive tasks in the random-label MNIST scenario.",
        _keeps([MNIST], "adalin", "adalin-tanh", "adalin-gelu"),
    ),
    Claim(
        "C3",
        "AdaLin keeps plasticity on all five benchmarks.",
        "AdaLin consistently maintains its plasticity across all benchmarks",
        _keeps(MAIN_BENCHMARKS, "adalin"),
    ),
    Claim(
        "C4a",
        "AdaLin beats Scratch where knowledge transfers.",
        "In tasks where previously acquired knowledge could be transferred [...] AdaLin can successfully leverage this "
        "advantage and even performed better than Scratch.",
        tuple(Highest(benchmark, "adalin", ("scratch",)) for benchmark in TESTED),
    ),
    Claim(
        "C4b",
        "Scratch and Shrink & Perturb score poorly there.",
        "In contrast, reset-based methods such as Scratch and Shrink & Perturb performed poorly, resulting in lower "
        "average task accuracy.",
        tuple(Highest(benchmark, "adalin", ("scratch", "shrink-perturb"), by=POOR) for benchmark in TESTED),
    ),
    Claim(
        "C5",
        "CReLU collapses on class-split CIFAR-100 after about 10 tasks.",
        "CReLU exhibits significant plasticity loss after approximately 10 tasks in Class-Split CIFAR-100, leading to "
        "nearly random performance.",
        (Collapses(SPLIT, "crelu", between=(6, 15)),),
    ),
    Claim(
        "C6",
        "Baseline collapses on both random-label benchmarks.",
        "Importantly, the Baseline suffers from severe plasticity loss in Random Label MNIST and Random Label "
        "CIFAR-10.",
        tuple(Collapses(benchmark, "baseline") for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C7",
        "Deep Fourier and L2 lose plasticity on shuffled CIFAR-10.",
        "in Shuffled Label CIFAR-10, the Deep Fourier and l2 regularization methods struggle to preserve plasticity",
        _loses([SHUFFLED], "fourier", "l2"),
    ),
    Claim(
        "C8a",
        "Deep Linear loses plasticity nowhere.",
        "the Deep Linear model did not suffer from plasticity loss in any benchmark",
        _keeps(MAIN_BENCHMARKS, "linear"),
    ),
    Claim(
        "C8b",
        "Deep Linear scores below the others.",
        "its overall performance remained significantly lower than other methods due to the limited capacity of the "
        "linear network",
        tuple(
            LowestOfLearners(benchmark, "linear", ("baseline", "adalin", "fourier", "crelu", "l2"))
            for benchmark in MAIN_BENCHMARKS
        ),
    ),
    Claim(
        "C9a",
        "AdaLin has the best test accuracy on class-split CIFAR-100.",
        "our method achieved the highest test accuracy for CIFAR-100",
        (Highest(SPLIT, "adalin", _rivals("adalin"), "test_accuracy"),),
    ),
    Claim(
        "C9b",
        "AdaLin's test accuracy is strong on shuffled CIFAR-10 and Permuted MNIST.",
        "and demonstrated strong performance on Shuffled Label CIFAR-10 and Permuted MNIST",
        tuple(AmongBest(benchmark, "adalin", _rivals("adalin"), "test_accuracy") for benchmark in (SHUFFLED, PERMUTED)),
    ),
    Claim(
        "C9c",
        "Test accuracy of Deep Fourier and Deep Linear falls on shuffled CIFAR-10.",
        "the Deep Fourier method faces challenges in generalization, with its test accuracy dropping significantly "
        "over time in Shuffled Label CIFAR-10. Furthermore, while the Deep Linear network did not exhibit plasticity "
        "loss in training accuracy for this benchmark, its test accuracy declined",
        (
            Changes(SHUFFLED, "fourier", "test_accuracy", by=-CLEAR),
            Changes(SHUFFLED, "linear", "test_accuracy", by=-DECLINED),
        ),
    ),
    Claim(
        "C10",
        "AdaLin is ahead of ReLU, CReLU and Deep Fourier on class-incremental CIFAR-100 with ResNet-18.",
        "test accuracy of each approach steadily improves, but AdaLin consistently outperforms the other baselines",
        (
            Highest(
                "class-incremental-cifar100", "adalin", ("baseline", "crelu", "fourier"), "test_accuracy", at_end=True
            ),
        ),
    ),
    Claim(
        "C11",
        "The gap between AdaLin and ReLU in SAC grows with the replay ratio.",
        "increasing the replay ratio results in a growing performance gap between the baseline SAC agent with the ReLU "
        "activation and the AdaLin-enhanced SAC model",
        tuple(GapGrows(environment) for environment in ENVIRONMENTS),
    ),
    Claim(
        "C12a",
        "An alpha per layer or per network loses plasticity.",
        "in Random Label MNIST and Random Label CIFAR 10, the Layer Level variant suffers from severe plasticity loss, "
        "while in Continual CIFAR 100 and Random Label CIFAR 10, the Network Level variant also experiences "
        "significant plasticity loss",
        (
            *_loses(RANDOM_LABELS, "adalin:granularity=layer"),
            *_loses((SPLIT, CIFAR), "adalin:granularity=network"),
        ),
    ),
    Claim(
        "C12b",
        "An alpha per neuron scores best.",
        "achieving optimal performance and fully mitigating plasticity loss is only possible when each neuron learns "
        "its own injection parameter",
        tuple(
            Highest(benchmark, "adalin", ("adalin:granularity=layer", "adalin:granularity=network"))
            for benchmark in MAIN_BENCHMARKS
        ),
    ),
    Claim(
        "C13a",
        "Without the gate, AdaLin on ReLU scores lower everywhere.",
        "When phi is ReLU, the variant with g(x) achieves higher training accuracy in all settings.",
        tuple(Highest(benchmark, "adalin", ("adalin:gate=none",)) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C13b",
        "Without the gate, AdaLin on GELU loses plasticity on random-label MNIST.",
        "when phi is GELU, Notably, in the Random Label MNIST experiment, the variant without g(x) exhibits a "
        "pronounced loss of plasticity",
        _loses([MNIST], "adalin-gelu:gate=none"),
    ),
    Claim(
        "C14",
        "The gate's form hardly matters.",
        "the differences across all gating functions were not substantial",
        tuple(Alike(benchmark, _GATES) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C15",
        "Learnable interpolation loses plasticity on both random-label benchmarks.",
        "This approach can not avoid loss of plasticity, and the model completely fails to preserve it's average task "
        "accuracy in the Random Label Cifar 10 and Random Label MNIST tasks.",
        _loses(RANDOM_LABELS, "interpolation"),
    ),
    Claim(
        "C16a",
        "Sign entropy falls steeply for Baseline, beyond what Scratch's does on the same tasks.",
        "Across all benchmark settings, the Baseline consistently exhibits a steep decrease in sign entropy, even in "
        "tasks where the loss of plasticity wasn't observed like Continual Cifar 100.",
        tuple(
            FallsMoreThan(benchmark, "baseline", "scratch", "sign_entropy", by=-STEEP) for benchmark in MAIN_BENCHMARKS
        ),
    ),
    Claim(
        "C16b",
        "AdaLin's sign entropy stays closer to Scratch's.",
        "In contrast, AdaLin maintains sign entropy levels closer to those of the Scratch model.",
        tuple(Closer(benchmark, "adalin", "baseline", "scratch", "sign_entropy") for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C17a",
        "Baseline's weight norm rises everywhere.",
        "Surprisingly, the Baseline model shows an increase in weight norm across all tasks",
        _norm_rises("baseline"),
    ),
    Claim(
        "C17b",
        "The weight norms of AdaLin and Deep Linear rise.",
        "AdaLin exhibits a gradual and controlled increase. Additionally, the Deep Linear model [...] also "
        "demonstrates a steady rise in weight norm.",
        _norm_rises("adalin", "linear"),
    ),
    Claim(
        "C17c",
        "AdaLin's srank, of weights, is near Scratch's.",
        "The effective rank of the network's weight matrices [...] across all experiments, AdaLin maintains a feature "
        "rank comparable to that of models trained from Scratch",
        tuple(Comparable(benchmark, "adalin", "scratch", _WEIGHTS) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C17d",
        "Baseline's srank, of weights, does not fall steeply.",
        "the Baseline also does not exhibit a steep decline in any setting",
        tuple(Steady(benchmark, "baseline", _WEIGHTS, by=-STEEP) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C17e",
        "CReLU's srank, of weights, is the highest everywhere.",
        "CReLU maintains the highest SRank across all settings",
        tuple(Highest(benchmark, "crelu", _rivals("crelu"), _WEIGHTS) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C17f",
        "C17c by the srank of features, which other papers take.",
        "AdaLin maintains a feature rank comparable to that of models trained from Scratch",
        tuple(Comparable(benchmark, "adalin", "scratch", _FEATURES) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C17g",
        "C17d by the srank of features.",
        "the Baseline also does not exhibit a steep decline in any setting",
        tuple(Steady(benchmark, "baseline", _FEATURES, by=-STEEP) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C17h",
        "C17e by the srank of features.",
        "CReLU maintains the highest SRank across all settings",
        tuple(Highest(benchmark, "crelu", _rivals("crelu"), _FEATURES) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C18a",
        "Most neurons are saturated.",
        "the majority of neurons experience high levels of saturation and utilize the linear portion of AdaLin",
        tuple(MostSaturated(benchmark) for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C18b",
        "Saturated neurons take small negative alphas.",
        "heavily saturated neurons tend to favor small negative alpha values",
        tuple(SaturatedAlphas(benchmark) for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C18c",
        "Alphas of unsaturated neurons are extreme early, and keep their sign.",
        "unsaturated neurons settle into extreme alpha values",
        tuple(ExtremeAlphas(benchmark) for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C18d",
        "Alphas of unsaturated neurons stay what they are.",
        "and seldom change thereafter",
        tuple(UnsaturatedAlphas(benchmark) for benchmark in RANDOM_LABELS),
    ),
    Claim(
        "C19",
        "AdaLin adds hardly any parameters.",
        "the proposed method adds negligible overhead to the learnable parameters in the network",
        (
            Negligible("mlp", (1, 28, 28), 10, "210 (0.23%), with the 10 outputs, which have no activation"),
            Negligible("cnn", (3, 32, 32), 100, "32 (0.08%), without the hidden layer of 64 units"),
        ),
    ),
    Claim(
        "C20",
        "AdaLin matches or outperforms the other methods.",
        "it consistently matches or outperforms recent methods",
        tuple(NotBehind(benchmark, "adalin", _rivals("adalin")) for benchmark in MAIN_BENCHMARKS),
    ),
    Claim(
        "C21",
        "Every other method loses plasticity somewhere.",
        "all baseline methods experienced a loss of plasticity in at least one benchmark",
        # Not Deep Linear, which the paper excepts (C8a), nor Scratch, which has none to lose.
        tuple(
            LosesSomewhere(MAIN_BENCHMARKS, method)
            for method in ("baseline", "fourier", "crelu", "l2", "shrink-perturb")
        ),
    ),
    Claim(
        "C22a",
        "Tanh and GELU lose plasticity everywhere.",
        "both Tanh and GELU, when used continually, perform poorly across all benchmarks, exhibiting severe plasticity "
        "loss",
        _loses(MAIN_BENCHMARKS, "tanh", "gelu"),
    ),
    Claim(
        "C22b",
        "AdaLin improves Tanh and GELU everywhere.",
        "using these activations in conjunction with AdaLin significantly improves the performance of the resulting "
        "network",
        tuple(
            Highest(benchmark, f"adalin-{base}", (base,))
            for benchmark, base in product(MAIN_BENCHMARKS, ("tanh", "gelu"))
        ),
    ),
    Claim(
        "C23",
        "AdaLin's sign entropy is above Scratch's on two benchmarks and below it on two.",
        "in some cases, such as Permuted MNIST and Continual CIFAR-100, AdaLin even has a sign entropy greater than "
        "the Scratch model, while in tasks like Random Label MNIST and Shuffle Label CIFAR10 the sign entropy of "
        "AdaLin is lower",
        (
            *(Highest(benchmark, "adalin", ("scratch",), "sign_entropy") for benchmark in (PERMUTED, SPLIT)),
            *(Highest(benchmark, "scratch", ("adalin",), "sign_entropy") for benchmark in (MNIST, SHUFFLED)),
        ),
    ),
)
"""C1 to C23."""
