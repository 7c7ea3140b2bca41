"""Where claims look up what has been run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from adalin.data._digits import SHA256 as DIGITS
from adalin.methods import Activation, Method
from adalin.report._statistics import LEAST_TASKS
from adalin.report._summary import SWEEP_SEEDS, Summary, Values
from adalin.report._verdict import SMALLER
from adalin.rl import SACRun
from adalin.streams import Benchmark, get_benchmark
from adalin.studies._paper import chosen_by_paper
from adalin.training import Result, Run

LEAST_SEEDS = 2
"""One does not tell how much seeds differ."""


class MissingError(Exception):
    """A claim cannot be judged; the message says what has not been run."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """One metric of methods that can be compared: trained at the same scale, on the same seeds and tasks."""

    values: list[Values]
    """(seeds, tasks) of each method, all finite. A diverged run has accuracy 0 from there on."""
    seeds: list[int]
    diverged: list[int]
    """How many runs of each method."""
    note: str
    """How much it is, and in what it is less than the paper's."""

    @property
    def is_smaller(self) -> bool:
        """Than the paper's."""
        return SMALLER in self.note


class Book:
    """Those summaries that have the paper's hyper-parameters."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        on_streams = [summary for summary in summaries if isinstance(summary.run, Run)]
        self._summaries = [kept for summary in on_streams if (kept := _for_claims(summary)) is not None]
        of_sac = [summary for summary in summaries if isinstance(summary.run, SACRun)]
        self.sac = [Summary(one.label, begun) for one in of_sac if (begun := _begun(one))]
        """Those of SAC."""

    def find_all(self, benchmark: str, methods: Sequence[str]) -> list[Summary]:
        """Methods at the scale nearest to the paper's, the same for all so that they can be compared."""
        wanted = [_canonical(method) for method in methods]
        scales: dict[tuple[Any, ...], dict[str, Summary]] = {}
        for summary in self._summaries:
            if _benchmark(summary).name == benchmark:
                found, method = scales.setdefault(_scale(summary), {}), _canonical(summary.config["method"])
                if method not in found or _preference([summary]) > _preference([found[method]]):
                    found[method] = summary
        known = {method for found in scales.values() for method in found}
        if absent := [method for method in methods if _canonical(method) not in known]:
            own = "with the paper's learning rate and batch size"
            raise MissingError(f"no runs of {', '.join(absent)} on {benchmark} {own}")
        complete = [[found[method] for method in wanted] for found in scales.values() if found.keys() >= set(wanted)]
        if not complete:
            raise MissingError(f"no runs of {', '.join(methods)} on {benchmark} with the same epochs, images and data")
        best = max(complete, key=_preference)
        if (tasks := min(summary.tasks for summary in best)) < LEAST_TASKS:
            raise MissingError(f"only {tasks} tasks of {', '.join(methods)} on {benchmark}; {LEAST_TASKS} are needed")
        return best

    def read(self, benchmark: str, methods: Sequence[str], metric: str = "online_accuracy") -> Evidence:
        summaries = self.find_all(benchmark, methods)
        seeds = sorted(set.intersection(*(set(summary.seeds) for summary in summaries)))
        tasks = min(summary.tasks for summary in summaries)
        if len(seeds) < LEAST_SEEDS:
            raise MissingError(f"{len(seeds)} seeds for {', '.join(methods)} on {benchmark}; {LEAST_SEEDS} are needed")
        lines = [[summary.seeds.index(seed) for seed in seeds] for summary in summaries]
        tables = [summary.scores(metric)[line, :tasks] for summary, line in zip(summaries, lines, strict=True)]
        usable = [bool(np.isfinite([table[line] for table in tables]).all()) for line in range(len(seeds))]
        if sum(usable) < LEAST_SEEDS:
            raise MissingError(f"no {metric} of {', '.join(methods)} in every task on {benchmark}")
        diverged = [sum(result.state == "diverged" for result in summary.results) for summary in summaries]
        seeds = [seed for seed, use in zip(seeds, usable, strict=True) if use]
        note = _note(summaries[0], seeds, tasks, sum(diverged))
        return Evidence([table[usable] for table in tables], seeds, diverged, note)


def _begun(summary: Summary) -> list[Result]:
    """One that waits for its turn says nothing, and must not keep the others from it."""
    return [result for result in summary.results if result.rows or result.state == "diverged"]


def _for_claims(summary: Summary) -> Summary | None:
    results = _begun(summary)
    config, benchmark = summary.config, _benchmark(summary)
    paper = {"inputs": "unit", "init": "default", "clip": benchmark.clip, "preset": "plain", "precision": "float32"}
    if _has_papers_network(summary):  # a smaller one has hyper-parameters of its own
        paper |= chosen_by_paper(benchmark, config["method"])
    is_papers = all(config[name] == value for name, value in paper.items())
    return Summary(summary.label, results) if results and is_papers else None


def _benchmark(summary: Summary) -> Benchmark:
    return get_benchmark(summary.config["benchmark"])


def _has_papers_network(summary: Summary) -> bool:
    return summary.config["model"] in (None, _benchmark(summary).model)


def _scale(summary: Summary) -> tuple[Any, ...]:
    """What must be equal for methods to be compared."""
    names = ["epochs", "images", "steps", "model", "data"]
    if not _has_papers_network(summary):  # which has hyper-parameters for each method
        names += ["lr", "batch_size"]
    return tuple(summary.config[name] for name in names)


@cache
def _canonical(text: str) -> str:
    """`no-gate` and `adalin:gate=none` are the same network."""
    method = Method.parse(text)
    if method.activation.name == "no-gate":
        method = replace(method, activation=Activation("adalin", **method.activation.options, gate="none"))
    return str(method)


def _preference(summaries: Sequence[Summary]) -> tuple[Any, ...]:
    config, benchmark, tasks = summaries[0].config, _benchmark(summaries[0]), min(one.tasks for one in summaries)
    is_papers = (
        _has_papers_network(summaries[0]),
        *(config[name] == getattr(benchmark, name) for name in ("epochs", "steps", "images")),
        config["data"] != DIGITS,
    )
    reported = not any(set(summary.seeds) <= set(SWEEP_SEEDS) for summary in summaries)
    return (tasks >= LEAST_TASKS, reported, *is_papers, tasks)


def _note(summary: Summary, seeds: Sequence[int], tasks: int, diverged: int) -> str:
    config, benchmark = summary.config, _benchmark(summary)
    parts = [f"{len(seeds)} seeds ({', '.join(map(str, seeds))}), {tasks} tasks"]
    less = [f"{tasks} of {benchmark.tasks} tasks"] if tasks < benchmark.tasks else []
    if not _has_papers_network(summary):
        settings = f"lr {config['lr']:g}, batches of {config['batch_size']}"
        less.append(f"{config['model']} ({settings}) instead of {benchmark.model}")
    for name in ("epochs", "images", "steps"):
        if config[name] != (papers := getattr(benchmark, name)):
            less.append(f"{config[name]} {name} instead of {papers}")
    less += ["the bundled digits"] * (config["data"] == DIGITS)
    if less:
        parts.append(f"{SMALLER}: {', '.join(less)}")
    if set(seeds) <= set(SWEEP_SEEDS):
        parts.append("the seeds that chose the hyper-parameters")
    if diverged:
        parts.append(f"{diverged} run{'s' * (diverged > 1)} diverged")
    return "; ".join(parts)
