"""Which of the paper's figures results give."""

from dataclasses import replace
from typing import Any

import pytest

from adalin.runs import Result, Run
from adalin.studies import BUDGETS, get_recipe, recipes
from adalin.studies._figures import FoundFigure, find_figures
from made_results import make_result, result_of

GATES = ("adalin-tanh", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic")
WITHOUT_RUNS = ["mechanism", "derivative", "overhead"]


def runs_of(figure: FoundFigure) -> list[list[Run[Any]]]:
    return [[result.run for result in part] for part in figure.parts]


def gates(**settings) -> list[Result]:
    return [make_result(method, **settings) for method in GATES]


def find(results: list[Result], name: str = "gate-forms") -> FoundFigure | None:
    return next((figure for figure in find_figures(results) if figure.recipe.name == name), None)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", [recipe.name for recipe in recipes().values() if recipe.parts])
def test_the_runs_of_a_recipe_are_found_under_its_budget(name, budget):
    examples = [part.examples(budget) for part in get_recipe(name).parts]
    every = {run.folder: result_of(run, [{"task": 0}]) for part in examples for run in part}
    figure = find(list(every.values()), name)
    assert runs_of(figure) == examples
    assert figure.command == f"adalin reproduce {name} --budget {budget} --seeds 3"


def test_figures_without_runs_come_with_others_only():
    assert find_figures([]) == []
    assert find_figures(gates()[:2]) == []
    assert [figure.recipe.name for figure in find_figures(gates())] == [
        "mechanism",
        "derivative",
        "gate-forms",
        "overhead",
    ]
    for figure in find_figures(gates()):
        if figure.recipe.name in WITHOUT_RUNS:
            assert (figure.command, figure.note) == (f"adalin reproduce {figure.recipe.name}", "")


def test_seeds_that_choose_other_settings_and_runs_that_wait_are_no_part_of_a_figure():
    reported = gates()
    choosing, other, waiting = gates(seed=0), gates(lr=0.5), gates(rows=0)
    assert find([*choosing, *other, *reported, *gates(seed=7)]).seeds == [3, 7]
    for missing in (choosing, other, waiting):
        assert find([*reported[1:], missing[0]]) is None
    diverged = gates(rows=0, state="diverged")
    assert find([*reported[1:], diverged[0]]).results == [diverged[0], *reported[1:]]


def test_a_figure_has_the_runs_on_one_data_set_that_with_most_tasks():
    digits = [replace(result, run=result.run.with_settings(data=None)) for result in gates(rows=3, source="digits")]
    assert find([*digits, *gates()]).note == "random-label-mnist: 12 of 250 tasks; seeds 3; data: MNIST"
    assert find([*digits, *gates()[1:]]).note == "random-label-mnist: 3 of 250 tasks; seeds 3; data: digits"


def test_the_note_says_how_far_runs_have_got():
    assert find([gates(rows=4)[0], *gates()[1:]]).note.startswith("random-label-mnist: 4 to 12 of 250 tasks;")
    assert find(gates(tasks=250)).note.startswith("random-label-mnist: 250 tasks;")
    assert find(gates(rows=2, state="diverged")).note.startswith("random-label-mnist: 0 of 250 tasks;")
    sac = [result_of(run, [{"task": 0}] * 5) for run in get_recipe("replay-ratio").parts[0].examples("short")]
    note = find(sac, "replay-ratio").note
    assert note.startswith("Hopper-v4, replay ratio 1: 25,000 of 1,000,000 steps;")


@pytest.mark.parametrize(
    ("tasks", "budget"), [(10, "quick"), (11, "short"), (50, "short"), (51, "paper"), (300, "paper")]
)
def test_the_command_has_the_smallest_budget_with_as_many_tasks(tasks, budget):
    results = [one for seed in (3, 4, 5) for one in gates(seed=seed, tasks=tasks, rows=2)]
    assert find(results).command == f"adalin reproduce gate-forms --budget {budget}"


def test_only_panels_that_are_there_are_drawn():
    figure = find(gates()).draw()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Random-label MNIST"]
    assert len(figure.axes[0].lines) == 3
