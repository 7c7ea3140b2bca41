"""The paper's figures that results give: whatever of a recipe's runs is among them, and how far it has got."""

import shlex
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from matplotlib.figure import Figure

from adalin.runs import Result, Run
from adalin.studies._paper import REPORT_SEEDS, SWEEP_SEEDS
from adalin.studies._recipes import BUDGETS, Recipe, StreamPart, recipes
from adalin.studies._replay_ratio import SACPart


@dataclass(frozen=True)
class FoundFigure:
    """A recipe with those of its runs that are there."""

    recipe: Recipe
    """Recipe of the figure."""
    budget: str
    """The budget that has such runs."""
    parts: Sequence[Sequence[Result]]
    """Results of each part of the recipe; none if a method is missing."""

    @cached_property
    def results(self) -> list[Result]:
        """The results of all parts."""
        return list(chain(*self.parts))

    def draw(self) -> Figure:
        """The figure, with a panel for each part that is there."""
        return self.recipe.figure([[result.run for result in part] for part in self.parts], self.results)

    @property
    def command(self) -> str:
        """What makes such runs, or goes on with them."""
        words = ["adalin", "reproduce", self.recipe.name]
        if self.results:
            words += ["--budget", self.budget]
            if tuple(self.seeds) != REPORT_SEEDS:
                words += ["--seeds", *map(str, self.seeds)]
        return shlex.join(words)

    @property
    def seeds(self) -> list[int]:
        """The seeds of any of the runs."""
        return sorted({result.run.seed for result in self.results})

    @property
    def note(self) -> str:
        """How far the runs have got, and on which data."""
        notes = [_progress(part, found) for part, found in zip(self.recipe.parts, self.parts, strict=True) if found]
        if self.results:
            sources = dict.fromkeys(result.source for result in self.results)
            notes += [f"seeds {', '.join(map(str, self.seeds))}", f"data: {', '.join(sources)}"]
        return "; ".join(notes)

    @property
    def is_within_budget(self) -> bool:
        """Whether no run has more tasks than the budget gives it."""
        for part, found in zip(self.recipe.parts, self.parts, strict=True):
            if found and max(result.run.tasks for result in found) > part.examples(self.budget)[0].tasks:
                return False
        return True


def find_figures(results: Sequence[Result]) -> list[FoundFigure]:
    """Those with a complete part; and if there are any, those that need no runs."""
    settings: dict[Hashable, list[Result]] = {}
    for result in results:
        has_begun = bool(result.rows) or result.state == "diverged"
        if has_begun and result.run.seed not in SWEEP_SEEDS:
            settings.setdefault(_setting(result.run), []).append(result)
    figures = [_find_figure(recipe, settings) for recipe in recipes().values()]
    if not any(figure.results for figure in figures):
        return []
    return [figure for figure in figures if figure.results or not figure.recipe.parts]


def _find_figure(recipe: Recipe, settings: Mapping[Hashable, Sequence[Result]]) -> FoundFigure:
    """Under the budget with most of the runs; if there are several, the smallest that they are within."""
    figures = [
        FoundFigure(recipe, budget, [_find(part.examples(budget), settings) for part in recipe.parts])
        for budget in BUDGETS
    ]
    most = max(len(figure.results) for figure in figures)
    largest = [figure for figure in figures if len(figure.results) == most]
    return next((figure for figure in largest if figure.is_within_budget), largest[-1])


def _find(examples: Sequence[Run[Any]], settings: Mapping[Hashable, Sequence[Result]]) -> list[Result]:
    """Those like the examples, with any seed; all on the same data, that with most tasks. None unless all have some."""
    places: dict[str, list[list[Result]]] = {}
    for number, example in enumerate(examples):
        for result in settings.get(_setting(example), ()):
            places.setdefault(result.source, [[] for _ in examples])[number].append(result)
    complete = [list(chain(*methods)) for methods in places.values() if all(methods)]
    return max(complete, key=lambda found: sum(len(result.rows) for result in found), default=[])


def _setting(run: Run[Any]) -> Hashable:
    """All that defines a run but its seed and what it was made on."""
    return frozenset((name, value) for name, value in run.config.items() if name not in ("seed", "data", "simulator"))


def _progress(part: StreamPart | SACPart, results: Sequence[Result]) -> str:
    """How far the runs of a part have got."""
    paper = part.examples("paper")[0]
    unit = "steps" if paper.description.steps_per_task else "tasks"
    wanted = paper.tasks * (paper.description.steps_per_task or 1)
    going = [result for result in results if result.state != "diverged"]
    done = [len(result.rows) * (result.run.description.steps_per_task or 1) for result in going] or [0]
    least, most = min(done), max(done)
    reached = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    if least < wanted:
        reached = f"{reached} of {wanted:,}"
    return f"{part.title or part.benchmark}: {reached} {unit}"
