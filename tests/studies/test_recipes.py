"""Each recipe defines the paper's runs, and draws its figure from whatever has come of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from adalin.data import Dataset
from adalin.executors import execute
from adalin.methods import Method
from adalin.metrics import metrics
from adalin.optim import SGD
from adalin.report import summarise
from adalin.runs import Comparison, Result, RunFolder, Session, kind_of
from adalin.streams import benchmarks, get_benchmark
from adalin.studies import (
    BUDGETS,
    CLAIMS,
    MAIN_BENCHMARKS,
    MAIN_METHODS,
    REPORT_SEEDS,
    SWEEP_SEEDS,
    get_recipe,
    judge_claims,
    recipes,
)
from adalin.studies._drawings import Panel, curves, derivative, heat_maps, mechanism, overhead
from made_results import result_of, with_accuracies
from own_benchmarks import on_data, put_in_place

TRAINED = [
    recipe
    for recipe in recipes().values()
    if recipe.parts and all(part.benchmark in MAIN_BENCHMARKS for part in recipe.parts)
]
"""Those on the five benchmarks of the main figure."""
names = pytest.mark.parametrize("name", [recipe.name for recipe in TRAINED])


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are defined as for the whole data sets, without any."""

    def define(
        benchmark: str, methods: Sequence[str], seeds: Sequence[int], *, data: str | None = None, **settings: Any
    ) -> Comparison:
        example = kind_of(benchmark).example
        return Comparison([example(benchmark, method, seed, **settings) for method in methods for seed in seeds])

    monkeypatch.setattr("adalin.studies._recipes.define", define)


NOISE = {"mnist": ((1, 28, 28), 10, 20), "cifar10": ((3, 32, 32), 10, 20), "cifar100": ((3, 32, 32), 100, 5)}
"""Shape of an image, classes, and images of each class for training, of what stands for each data set."""
TINY = {
    "random-label-mnist": {"images": 40},
    "permuted-mnist": {"images": 40},
    "random-label-cifar10": {"images": 40},
    "shuffled-label-cifar10": {"images": 40},
    "class-split-cifar100": {"images": 25},
}


@cache
def noise(name: str) -> Dataset:
    """Noise, balanced, with two test images per class."""
    shape, classes, per_class = NOISE[name]
    generator = torch.Generator().manual_seed(0)

    def part(count: int) -> tuple[Tensor, Tensor]:
        images = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
        return images, torch.arange(count) % classes

    return Dataset(name, "noise", False, *part(classes * per_class), *part(classes * 2), classes, sha256=name)


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick budget is one of moments, on noise."""
    for name, settings in TINY.items():
        benchmark = get_benchmark(name)
        put_in_place(monkeypatch, on_data(benchmark, noise(benchmark.dataset)))
        monkeypatch.setitem(BUDGETS["quick"], name, {**settings, "tasks": 1, "epochs": 1})


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny(monkeypatch)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """All runs of all recipes, each once: those of AdaLin are trained, the others have its rows, scaled a little."""
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        every = [run for recipe in TRAINED for part in recipe.runs("quick", seeds=[3]) for run in part]
        runs = list({run.folder: run for run in every}.values())
        real = {run.benchmark: run for run in runs if run.method == "adalin" and run.settings.inputs == "unit"}
        execute(list(real.values()), Session(out=out))
    results = []
    for number, run in enumerate(runs):
        rows = RunFolder(out / real[run.benchmark].folder).rows()
        assert len(rows) == 1
        scale = 0.5 + number / len(runs)
        scaled = [{k: v * scale if isinstance(v, float) else v for k, v in row.items()} for row in rows]
        results.append(result_of(run, scaled))
    return results


def panels_of(figure: Figure) -> list[dict[str, np.ndarray]]:
    """The lines of each panel."""
    return [{line.get_label(): line.get_ydata() for line in axes.lines} for axes in figure.axes]


# What is run


@names
def test_methods_are_written_as_runs_write_them(name):
    for part in get_recipe(name).parts:
        assert part.benchmark in {benchmark.name for benchmark in benchmarks().values()}
        assert [str(Method.parse(method)) for method in part.methods] == list(part.methods)


@names
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.usefixtures("no_data")
def test_hyper_parameters_are_the_papers_and_seeds_not_those_of_sweeps(name, budget):
    recipe = get_recipe(name)
    for part, runs in zip(recipe.parts, recipe.runs(budget), strict=True):
        own = get_benchmark(part.benchmark).settings
        assert [run.method for run in runs[::3]] == list(dict.fromkeys(run.method for run in runs)), (
            "seeds of a method follow each other"
        )
        assert {run.method for run in runs} == set(part.methods)
        for run in runs:
            fourier = run.method.startswith("fourier") and part.benchmark == "random-label-cifar10"
            lr = 1e-3 if fourier or not isinstance(Method.parse(run.method).optimizer, SGD) else own.lr
            assert (run.settings.lr, run.settings.batch_size) == (lr, 32 if fourier else own.batch_size)
            assert run.seed in REPORT_SEEDS
            assert run.settings.inputs == part.settings.get("inputs", "unit")
    assert set(REPORT_SEEDS).isdisjoint(SWEEP_SEEDS)


@names
@pytest.mark.usefixtures("no_data")
def test_the_papers_budget_is_the_benchmarks_own_and_short_only_has_fewer_tasks(name):
    recipe = get_recipe(name)
    every = {budget: [run for part in recipe.runs(budget) for run in part] for budget in BUDGETS}
    for paper, short in zip(every["paper"], every["short"], strict=True):
        own, chosen = get_benchmark(paper.benchmark).settings, paper.settings
        assert (chosen.tasks, chosen.epochs, chosen.images) == (own.tasks, own.epochs, own.images)
        assert short.tasks <= paper.tasks
        assert short.with_settings(tasks=paper.tasks) == paper
    for quick, short in zip(every["quick"], every["short"], strict=True):
        assert 10 <= quick.tasks <= short.tasks, "fewer than 10 decide no claim"
        assert quick.settings.epochs <= short.settings.epochs


def test_the_papers_budget_changes_nothing():
    assert BUDGETS["paper"] == {}


@pytest.mark.usefixtures("no_data")
def test_recipes_share_the_runs_of_the_main_figure():
    def folders(name):
        return {run.folder for part in get_recipe(name).runs("quick") for run in part}

    main = folders("main-figure")
    assert len(main) == len(MAIN_BENCHMARKS) * len(MAIN_METHODS) * 3
    for name in ("sign-entropy", "weight-norm", "srank"):
        assert folders(name) == main
    for name in ("test-accuracy", "heat-maps"):
        assert folders(name) < main
    for name in ("interpolation", "leaky-slope", "granularity", "gate", "other-activations", "activations"):
        assert folders(name) & main, name


def test_figures_of_the_bundled_digits_say_so():
    recipe = get_recipe("activations")
    figure = recipe.figure(recipe.runs("quick", seeds=[3], data="bundled"), [])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["without AdaLin (bundled digits)", "with AdaLin (bundled digits)"]


def test_every_claim_about_what_can_be_run_belongs_to_a_recipe():
    claims = {claim for recipe in recipes().values() for claim in recipe.claims}
    assert claims == {claim.number for claim in CLAIMS}


@pytest.mark.parametrize("name", [recipe.name for recipe in TRAINED if recipe.claims])
@pytest.mark.usefixtures("no_data")
def test_a_recipe_runs_all_that_its_claims_need(name):
    recipe = get_recipe(name)
    row = {"online_accuracy": 0.5, "test_accuracy": 0.5, "sign_entropy": 0.5, "weight_norm": 1.0, "srank": 9.0}
    row |= {"weight_srank": [9.0, 8.0]}
    row |= {"alpha": [[-0.1, 0.5]], "saturation": [[0.9, 0.0]]}
    runs = {run.folder: run for part in recipe.runs("quick") for run in part}
    results = [result_of(run, [{"task": task} | row for task in range(run.tasks)]) for run in runs.values()]
    verdicts = judge_claims(summarise(results), recipe.claims)
    assert verdicts
    for verdict in verdicts:
        for finding in verdict.findings:
            assert "no runs of" not in finding.numbers, (verdict.claim, finding)
            assert "are needed" not in finding.numbers, (verdict.claim, finding)


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(ValueError, match=r"^unknown recipe 'main-figur' \(did you mean 'main-figure'\?\); known: mech"):
        get_recipe("main-figur")


# What is drawn


def title_of(method):
    return Method.parse(method).title


@names
@pytest.mark.usefixtures("tiny")
def test_a_figure_shows_every_method_in_its_panel(name, trained):
    recipe = get_recipe(name)
    figure = recipe.figure(recipe.runs("quick", seeds=[3]), trained)
    if name == "heat-maps":
        assert [len(axes.images) for axes in figure.axes[:4]] == [1] * 4
        return
    if name == "foretell":  # which needs falls
        assert [text.get_text() for text in figure.texts] == ["no benchmark has falls enough yet"]
        return
    found = {result.run.folder: result for result in trained}
    (legend,) = figure.legends or [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    shown = {text.get_text() for text in legend.get_texts()}
    assert shown == {title_of(method) for part in recipe.parts for method in part.methods}
    metric = getattr(recipe.draw, "keywords", {}).get("metric", "online_accuracy")
    assert metric in metrics()
    for part, runs, axes, lines in zip(
        recipe.parts, recipe.runs("quick", seeds=[3]), figure.axes, panels_of(figure), strict=False
    ):
        assert axes.get_title(loc="left") == (part.title or get_benchmark(part.benchmark).title)
        assert lines.keys() == set(map(title_of, part.methods))
        for run in runs:
            values = [row[metric] for row in found[run.folder].rows]
            if metric == "weight_srank":  # one for each layer
                values = [sum(layers) for layers in values]
            np.testing.assert_array_equal(lines[title_of(run.method)], values)
            assert np.isfinite(values).all()


@pytest.mark.parametrize("name", ["activations", "test-accuracy", "heat-maps"])
@pytest.mark.usefixtures("tiny")
def test_a_figure_is_drawn_from_whatever_there_is(name, trained):
    recipe = get_recipe(name)
    runs = recipe.runs("quick", seeds=[3])
    first = runs[0][0]
    one = [result for result in trained if result.run == first]
    assert len(one) == 1
    for results in ([], [result_of(first, [], state="diverged")], [result_of(first, [])], one):
        recipe.figure(runs, results).draw_without_rendering()


def test_an_unused_place_in_the_grid_is_empty(trained):
    panels = [Panel(f"{number}", summarise(trained[:1])) for number in range(5)]
    assert [axes.axison for axes in curves(panels).axes] == [True] * 5 + [False]


def test_heat_maps_show_the_neurons_of_the_first_seed_that_has_any():
    def row(task):
        return {"task": task, "alpha": [[0.1 * task, 0.2], [0.3]], "saturation": [[0.9, 0.1], [0.5, 0.4]]}

    run = with_accuracies([0.1], "adalin").run
    (summary,) = summarise([result_of(run, [], state="diverged"), result_of(replace(run, seed=4), [row(0), row(1)])])
    left, right = heat_maps([Panel("here", [summary])]).axes[:2]
    assert left.get_title(loc="left") == "here: alpha (seed 4)"
    # Sorted by saturation at the end within each layer; an alpha for a whole layer is that of all its neurons.
    np.testing.assert_allclose(left.images[0].get_array(), [[0.2, 0.2], [0, 0.1], [0.3, 0.3], [0.3, 0.3]])
    np.testing.assert_allclose(right.images[0].get_array(), [[0.1, 0.1], [0.9, 0.9], [0.4, 0.4], [0.5, 0.5]])
    assert left.get_xlim() == (0.5, 2.5), "tasks are counted from 1"


@pytest.mark.parametrize("alpha", [-0.5, -0.2, 0.2, 0.5, 1.0])
def test_the_derivative_is_that_of_the_formula(alpha):
    """f(x) = tanh(x) + alpha x g(x), with g = cos(pi/2 tanh'(x)) held constant in the backward pass."""
    (axes,) = derivative().axes
    line = next(line for line in axes.lines if line.get_label() == f"alpha = {alpha:g}")
    x, slope = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    for place in (-3.0, -1.0, 0.0, 0.5, 4.0):
        steep = 1 - np.tanh(place) ** 2
        expected = steep + alpha * np.cos(np.pi / 2 * steep)
        assert slope[np.abs(x - place).argmin()] == pytest.approx(expected, abs=1e-9)


def test_the_mechanism_shows_what_the_layer_adds():
    _, injection, neuron = mechanism().axes
    x = np.asarray(injection.lines[0].get_xdata())
    base, injected, whole = (np.asarray(line.get_ydata()) for line in injection.lines[:3])
    gate = np.cos(np.pi / 2 * (1 - np.tanh(x) ** 2))
    np.testing.assert_allclose(base, np.tanh(x), atol=1e-12)
    np.testing.assert_allclose(injected, 0.3 * x * gate, atol=1e-12)
    np.testing.assert_allclose(whole, np.tanh(x) + 0.3 * x * gate, atol=1e-12)
    texts = [text.get_text() for text in neuron.texts]
    steep = [1 - np.tanh(place) ** 2 for place in (0.3, 3.0)]
    slopes = [value + 0.3 * np.cos(np.pi / 2 * value) for value in steep]
    for text, value, slope in zip(texts, steep, slopes, strict=True):
        assert text.endswith(f"gradient {value:.2f} → {slope:.2f}")


@pytest.mark.parametrize("draw", [mechanism, derivative, overhead])
def test_what_needs_no_runs_is_drawn_without_random_numbers(draw):
    before = torch.get_rng_state()
    draw([]).draw_without_rendering()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_table_of_overheads_counts_alphas():
    (axes,) = overhead().axes
    (table,) = axes.tables
    cells = {place: cell.get_text().get_text() for place, cell in table.get_celld().items()}
    assert [cells[1, column] for column in range(3)] == ["MLP", "89,610", "200 (0.22%)"]
    assert [cells[2, column] for column in range(3)] == ["CNN", "39,796", "96 (0.24%)"]
