"""The paper's figures that results give: whatever of a recipe's runs is among them, and how far it has got."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from matplotlib.figure import Figure

from adalin.report import SWEEP_SEEDS
from adalin.studies._paper import REPORT_SEEDS
from adalin.studies._recipes import BUDGETS, Part, Recipe, recipes
from adalin.studies._replay_ratio import SACPart
from adalin.training import AnyRun, Result


@dataclass(frozen=True)
class FoundFigure:
    """A recipe with those of its runs that are there."""

    recipe: Recipe
    budget: str
    parts: Sequence[Sequence[Result]]
    """Of each part of the recipe; none if a method is missing."""

    @cached_property
    def results(self) -> list[Result]:
        """Of all parts."""
        return list(chain(*self.parts))

    def draw(self) -> Figure:
        """With a panel for each part that is there."""
        return self.recipe.figure([[result.run for result in part] for part in self.parts], self.results)

    @property
    def command(self) -> str:
        """What makes such runs, or goes on with them."""
        parts = ["adalin", "reproduce", self.recipe.name]
        if self.results:
            parts += ["--budget", self.budget]
            parts += ["--seeds", *map(str, self.seeds)] if tuple(self.seeds) != REPORT_SEEDS else []
        return shlex.join(parts)

    @property
    def seeds(self) -> list[int]:
        """Of any of the runs."""
        return sorted({result.run.seed for result in self.results})

    @property
    def note(self) -> str:
        """How far the runs have got, and on which data."""
        notes = [_how_far(part, found) for part, found in zip(self.recipe.parts, self.parts, strict=True) if found]
        if self.results:
            sources = dict.fromkeys(result.source for result in self.results)
            notes += [f"seeds {', '.join(map(str, self.seeds))}", f"data: {', '.join(sources)}"]
        return "; ".join(notes)

    @property
    def is_within_budget(self) -> bool:
        """Whether no run has more tasks than the budget gives it."""
        return all(
            result.run.tasks <= part.examples(self.budget)[0].tasks
            for part, found in zip(self.recipe.parts, self.parts, strict=True)
            for result in found
        )


def find_figures(results: Sequence[Result]) -> list[FoundFigure]:
    """Those with a complete part; and if there are any, those that need no runs."""
    begun = [result for result in results if result.rows or result.state == "diverged"]
    reported = [result for result in begun if result.run.seed not in SWEEP_SEEDS]
    figures = [_find_figure(recipe, reported) for recipe in recipes().values()]
    if not any(figure.results for figure in figures):
        return []
    return [figure for figure in figures if figure.results or not figure.recipe.parts]


def _find_figure(recipe: Recipe, results: Sequence[Result]) -> FoundFigure:
    """Under the budget with most of the runs; if there are several, the smallest that they are within."""
    figures = [
        FoundFigure(recipe, budget, [_find(part.examples(budget), results) for part in recipe.parts])
        for budget in BUDGETS
    ]
    most = max(len(figure.results) for figure in figures)
    largest = [figure for figure in figures if len(figure.results) == most]
    return next((figure for figure in largest if figure.is_within_budget), largest[-1])


def _find(examples: Sequence[AnyRun], results: Sequence[Result]) -> list[Result]:
    """Those like the examples, with any seed; all on the same data, that with most tasks. None unless all have some."""
    places: dict[str, list[list[Result]]] = {}
    for number, example in enumerate(examples):
        wanted = _setting(example)
        for result in results:
            if result.run.method == example.method and _setting(result.run) == wanted:
                places.setdefault(result.source, [[] for _ in examples])[number].append(result)
    complete = [list(chain(*methods)) for methods in places.values() if all(methods)]
    return max(complete, key=lambda found: sum(len(result.rows) for result in found), default=[])


def _setting(run: AnyRun) -> dict[str, Any]:
    """All but the seed and what the run was made on."""
    return {name: value for name, value in run.config().items() if name not in ("seed", "data", "simulator")}


def _how_far(part: Part | SACPart, results: Sequence[Result]) -> str:
    paper = part.examples("paper")[0]
    unit = "steps" if paper.steps_per_task else "tasks"
    all_of = paper.tasks * (paper.steps_per_task or 1)
    going = [result for result in results if result.state != "diverged"]
    done = sorted({len(result.rows) * (result.run.steps_per_task or 1) for result in going}) or [0]
    told = " to ".join(f"{count:,}" for count in dict.fromkeys((done[0], done[-1])))
    return f"{part.title or part.benchmark}: {told}{f' of {all_of:,}' * (done[0] < all_of)} {unit}"
