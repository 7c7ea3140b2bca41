"""Which remedy won where, by how much, and with how many weights: the tables of the guide to choosing."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from adalin.methods import Method
from adalin.models import make_model
from adalin.report import Interval, Plasticity, Summary, Values, mean_interval, plasticity
from adalin.streams import get_benchmark
from adalin.studies._evidence import PaperRuns
from adalin.studies._paper import MAIN_BENCHMARKS

WHAT_CHANGES = {
    "permuted-mnist": "inputs: every pixel moves",
    "class-split-cifar100": "classes: five new ones",
    "shuffled-label-cifar10": "labels: classes change names",
    "random-label-mnist": "labels: each image gets a new one",
    "random-label-cifar10": "labels: each image gets a new one, long training",
}
"""Kind of change from task to task, by benchmark."""
SHAPES = {"mnist": ((1, 28, 28), 10), "cifar10": ((3, 32, 32), 10), "cifar100": ((3, 32, 32), 100)}
"""Shape of an image and number of classes, by data set."""
AS_MANY = 1.01
"""A network with up to a hundredth more weights has as many."""
RESETS = ("scratch", "shrink-perturb")
"""Methods that start anew, at a task's start or a little in each step."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method on a benchmark, with all of the paper's tasks."""

    method: str
    """Text of the method."""
    scores: Values
    """Online accuracy, (seeds, tasks)."""
    seeds: list[int]
    """Seeds in the order of the scores."""
    parameters: int
    """Number of the network's parameters."""
    found: Plasticity
    """Fate of its plasticity."""

    @property
    def title(self) -> str:
        """Name for people."""
        return Method.parse(self.method).title

    @property
    def mean(self) -> float:
        """Online accuracy over all tasks and seeds."""
        return float(self.scores.mean())

    def lead(self, other: "Candidate") -> Interval:
        """Over another one, on the seeds that both have."""
        common = [seed for seed in self.seeds if seed in other.seeds]
        own, their = ([one.seeds.index(seed) for seed in common] for one in (self, other))
        return mean_interval(self.scores[own] - other.scores[their])


def candidates(runs: PaperRuns, benchmark: str) -> list[Candidate]:
    """Methods that have made all tasks of a benchmark, the best first."""
    found = []
    described = get_benchmark(benchmark)
    for summary in runs.at_the_papers_scale(benchmark):
        if summary.tasks < described.settings.tasks or len(summary.seeds) < 2:
            continue
        scores = summary.scores()
        fate = plasticity(scores, chance=described.chance, diverged=summary.diverged)
        method = summary.config["method"]
        found.append(Candidate(method, scores, summary.seeds, count_parameters(benchmark, method), fate))
    return sorted(found, key=lambda one: -one.mean)


def count_parameters(benchmark: str, method: str) -> int:
    """Number of parameters of a method's network on a benchmark."""
    described = get_benchmark(benchmark)
    assert described.dataset is not None
    shape, classes = SHAPES[described.dataset]
    with torch.device("meta"):  # draws no random numbers
        model = make_model(described.model, shape, classes, Method.parse(method).activation)
    return sum(parameter.numel() for parameter in model.parameters())


def choice_tables(summaries: Sequence[Summary]) -> list[tuple[Sequence[str], list[list[str]]]]:
    """Heads and rows: who wins by what changes, and then all methods on each benchmark."""
    runs = PaperRuns(summaries)
    winners: list[list[str]] = []
    tables: list[tuple[Sequence[str], list[list[str]]]] = []
    for benchmark in MAIN_BENCHMARKS:
        every = candidates(runs, benchmark)
        by_method = {one.method: one for one in every}
        if not {"adalin", "baseline"} <= by_method.keys():
            continue
        adalin, relu = by_method["adalin"], by_method["baseline"]
        best = every[0]
        few = [one for one in every if one.parameters <= AS_MANY * relu.parameters and one.method not in RESETS]
        winners.append(
            [
                WHAT_CHANGES[benchmark],
                benchmark,
                f"{best.title}, {best.mean:.3f}",
                _more(best, relu),
                "-" if best is adalin else _signed(best.lead(adalin)),
                f"{few[0].title}, {few[0].mean:.3f}",
                f"{adalin.mean:.3f}",
                _signed(adalin.lead(relu)),
            ]
        )
        rows = [_row(one, relu) for one in every]
        tables.append((("method", benchmark, "last five tasks", "lead over ReLU", "plasticity", "weights"), rows))
    heads = (
        "what changes",
        "benchmark",
        "best",
        "its weights",
        "its lead over AdaLin",
        "best with ReLU's weights",
        "AdaLin",
        "AdaLin's lead over ReLU",
    )
    return [(heads, winners), *tables]


def _row(one: Candidate, relu: Candidate) -> list[str]:
    word = "lost" if one.found.lost else "kept" if one.found.kept else "open"
    lead = "-" if one is relu else _signed(one.lead(relu))
    return [one.title, f"{one.mean:.3f}", f"{one.found.end.value:.3f}", lead, word, _more(one, relu)]


def _more(one: Candidate, relu: Candidate) -> str:
    return f"{one.parameters:,} ({one.parameters / relu.parameters - 1:+.1%})"


def _signed(interval: Interval) -> str:
    return f"{interval.value:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
