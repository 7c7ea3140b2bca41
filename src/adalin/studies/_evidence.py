"""Where claims look up what has been run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from adalin._text import count
from adalin.data import DIGITS_SHA256
from adalin.methods import Activation, Method
from adalin.report import LEAST_TASKS, Summary, Values
from adalin.runs import Result
from adalin.settings import SACSettings, SupervisedSettings
from adalin.streams import Benchmark, get_benchmark
from adalin.studies._paper import SWEEP_SEEDS, chosen_by_paper

_Scale = tuple[Any, ...]

_SCALE = tuple(name for name in SupervisedSettings.scale() if name not in ("tasks", "model"))
"""Settings that make the training of a task longer."""

LEAST_SEEDS = 2
"""One does not tell how much seeds differ."""


class MissingError(Exception):
    """A claim cannot be judged; the message says what has not been run."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """One metric of methods that can be compared: trained at the same scale, on the same seeds and tasks."""

    values: list[Values]
    """Numbers of each method, (seeds, tasks), all finite; a diverged run has accuracy 0 from there on."""
    seeds: list[int]
    """Seeds that all methods have."""
    tasks: int
    """Tasks that all methods have finished."""
    diverged: list[int]
    """Number of runs that diverged, of each method."""
    smaller: tuple[str, ...]
    """Ways in which the runs are less than the paper's: "20 of 250 tasks"."""

    @property
    def note(self) -> str:
        """How much it is, and in what it is less than the paper's."""
        parts = [f"{len(self.seeds)} seeds ({', '.join(map(str, self.seeds))}), {self.tasks} tasks"]
        if self.smaller:
            parts.append(scale_note(self.smaller))
        if set(self.seeds) <= set(SWEEP_SEEDS):
            parts.append("the seeds that chose the hyper-parameters")
        if any(self.diverged):
            parts.append(f"{count(sum(self.diverged), 'run')} diverged")
        return "; ".join(parts)


def scale_note(smaller: Sequence[str]) -> str:
    """In what runs are less than the paper's, for people."""
    return f"not the paper's scale: {', '.join(smaller)}"


class PaperRuns:
    """Those summaries that have the paper's hyper-parameters."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self.sac: list[Summary] = []
        """Summaries of SAC, whatever their hyper-parameters."""
        self._scales: dict[str, dict[_Scale, dict[str, Summary]]] = {}
        """Summaries by benchmark, by what must be equal for methods to be compared, and by method."""
        for summary in summaries:
            begun = _begun(summary)
            if begun is None:
                continue
            if isinstance(summary.run.settings, SACSettings):
                self.sac.append(begun)
            elif _has_papers_settings(begun):
                self._add(begun)

    def find_all(self, benchmark: str, methods: Sequence[str]) -> list[Summary]:
        """Methods at the scale nearest to the paper's, the same for all so that they can be compared."""
        scales = self._scales.get(benchmark, {}).values()
        wanted = [_canonical(method) for method in methods]
        known = set[str]().union(*scales)
        absent = [method for method, canonical in zip(methods, wanted, strict=True) if canonical not in known]
        if absent:
            own = "with the paper's learning rate and batch size"
            raise MissingError(f"no runs of {', '.join(absent)} on {benchmark} {own}")
        complete = [[found[method] for method in wanted] for found in scales if found.keys() >= set(wanted)]
        if not complete:
            raise MissingError(f"no runs of {', '.join(methods)} on {benchmark} with the same epochs, images and data")
        best = max(complete, key=_preference)
        tasks = _common_tasks(best)
        if tasks < LEAST_TASKS:
            raise MissingError(f"only {tasks} tasks of {', '.join(methods)} on {benchmark}; {LEAST_TASKS} are needed")
        return best

    def at_the_papers_scale(self, benchmark: str) -> list[Summary]:
        """Every method with the paper's settings, network and data, though perhaps fewer tasks."""
        for found in self._scales.get(benchmark, {}).values():
            members = list(found.values())
            if members and not _smaller(members[0], get_benchmark(benchmark).settings.tasks):
                return members
        return []

    def evidence(self, benchmark: str, methods: Sequence[str], metric: str = "online_accuracy") -> Evidence:
        """A metric of methods at that scale, on the seeds and tasks that all of them have."""
        summaries = self.find_all(benchmark, methods)
        seeds = common_seeds([summary.seeds for summary in summaries])
        tasks = _common_tasks(summaries)
        if len(seeds) < LEAST_SEEDS:
            raise MissingError(f"{len(seeds)} seeds for {', '.join(methods)} on {benchmark}; {LEAST_SEEDS} are needed")
        tables = []
        for summary in summaries:
            lines = [summary.seeds.index(seed) for seed in seeds]
            tables.append(summary.scores(metric)[lines, :tasks])
        usable = [bool(np.isfinite([table[line] for table in tables]).all()) for line in range(len(seeds))]
        if sum(usable) < LEAST_SEEDS:
            raise MissingError(f"no {metric} of {', '.join(methods)} in every task on {benchmark}")
        return Evidence(
            values=[table[usable] for table in tables],
            seeds=[seed for seed, use in zip(seeds, usable, strict=True) if use],
            tasks=tasks,
            diverged=[summary.diverged for summary in summaries],
            smaller=_smaller(summaries[0], tasks),
        )

    def _add(self, summary: Summary) -> None:
        """Beside others of its scale; of two with one method the preferred one stays."""
        scales = self._scales.setdefault(_benchmark(summary).name, {})
        found = scales.setdefault(_scale(summary), {})
        method = _canonical(summary.config["method"])
        if method not in found or _preference([summary]) > _preference([found[method]]):
            found[method] = summary


def common_seeds(seeds: Sequence[Sequence[int]]) -> list[int]:
    """Those that all have."""
    return sorted(set.intersection(*map(set, seeds)))


def _begun(summary: Summary) -> Summary | None:
    """Without runs that wait for their turn: those say nothing, and must not keep the others from it."""
    results: list[Result] = [result for result in summary.results if result.rows or result.state == "diverged"]
    return Summary(summary.label, results, summary.title) if results else None


def _common_tasks(summaries: Sequence[Summary]) -> int:
    return min(summary.tasks for summary in summaries)


def _has_papers_settings(summary: Summary) -> bool:
    config, benchmark = summary.config, _benchmark(summary)
    chosen = chosen_by_paper(benchmark, config["method"])
    varied = {*SupervisedSettings.scale(), "data"}
    if not _has_papers_network(summary):  # a smaller one has hyper-parameters of its own
        varied |= chosen.keys()
    paper_values = benchmark.settings.values() | chosen
    return all(config[name] == value for name, value in paper_values.items() if name not in varied)


def _benchmark(summary: Summary) -> Benchmark:
    return get_benchmark(summary.config["benchmark"])


def _has_papers_network(summary: Summary) -> bool:
    return summary.config["model"] in (None, _benchmark(summary).model)


def _scale(summary: Summary) -> _Scale:
    """What must be equal for methods to be compared."""
    names = [*_SCALE, "model", "data"]
    if not _has_papers_network(summary):  # which has hyper-parameters for each method
        names += ["lr", "batch_size"]
    return tuple(summary.config[name] for name in names)


@cache
def _canonical(text: str) -> str:
    """`no-gate` and `adalin:gate=none` are the same network."""
    method = Method.parse(text)
    if method.activation.name == "no-gate":
        base = method.activation.options["base"]
        method = replace(method, activation=Activation("adalin", base=base, gate="none"))
    return str(method)


def _preference(summaries: Sequence[Summary]) -> tuple[Any, ...]:
    """The larger, the better summaries of one scale judge a claim."""
    config = summaries[0].config
    benchmark = _benchmark(summaries[0])
    tasks = _common_tasks(summaries)
    is_papers = (
        _has_papers_network(summaries[0]),
        *(config[name] == getattr(benchmark.settings, name) for name in _SCALE),
        config["data"] != DIGITS_SHA256,
    )
    reported = not any(set(summary.seeds) <= set(SWEEP_SEEDS) for summary in summaries)
    return (tasks >= LEAST_TASKS, reported, *is_papers, tasks)


def _smaller(summary: Summary, tasks: int) -> tuple[str, ...]:
    """In what runs with so many tasks are less than the paper's."""
    config, benchmark = summary.config, _benchmark(summary)
    smaller = []
    if tasks < benchmark.settings.tasks:
        smaller.append(f"{tasks} of {benchmark.settings.tasks} tasks")
    if not _has_papers_network(summary):
        settings = f"lr {config['lr']:g}, batches of {config['batch_size']}"
        smaller.append(f"{config['model']} ({settings}) instead of {benchmark.model}")
    for name in _SCALE:
        paper_value = getattr(benchmark.settings, name)
        if config[name] != paper_value:
            smaller.append(f"{config[name]} {name} instead of {paper_value}")
    if config["data"] == DIGITS_SHA256:
        smaller.append("the bundled digits")
    return tuple(smaller)
