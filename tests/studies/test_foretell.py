"""Which metric foretells a fall: on made-up runs where one does, and against plain computations."""

from itertools import product

import numpy as np
import pytest

from adalin.report import Summary
from adalin.studies._drawings import Panel
from adalin.studies._foretell import METRICS, NAMES, Foretelling, Rows, draw_foretelling, foretell
from made_results import define, result_of

TASKS = 60


def made(method, accuracy, benchmark="random-label-mnist", **metrics):
    results = []
    for seed in (3, 4, 5):
        rng = np.random.default_rng(seed)
        run = define(benchmark, method, seed, tasks=TASKS)
        rows = []
        for task in range(TASKS):
            row = {"task": task, **{name: float(rng.uniform(1, 2)) for name in METRICS}}
            row["online_accuracy"] = float(accuracy[task])
            rows.append(row | {name: float(values[task]) for name, values in metrics.items()})
        results.append(result_of(run, rows))
    return Summary(method, results)


FALLING = np.where(np.arange(TASKS) < 40, 0.8, 0.4)
FLAT = np.full(TASKS, 0.8)
WARNS = np.where(np.arange(TASKS) < 20, 0.9, 0.1)  # long before the fall


def world():
    falls = {"baseline": FALLING, "tanh": FALLING, "adalin": FLAT, "crelu": FLAT}
    return [
        made(name, curve, sign_entropy=WARNS if curve is FALLING else 1 - 0.01 * FLAT) for name, curve in falls.items()
    ]


def test_a_fall_is_what_the_page_says_and_only_networks_that_learn_are_asked():
    (found,) = foretell({"random-label-mnist": world()})
    falls = [t for t in range(1, TASKS - 11) if FALLING[t + 9 : t + 12].mean() < FALLING[t - 1 : t + 1].mean() - 0.05]
    assert found.falls == 2 * 3 * len(falls)
    dead = made("gelu", np.full(TASKS, 0.15))
    assert foretell({"random-label-mnist": [*world(), dead]})[0].falls == found.falls
    assert "gelu" not in [rows.method for rows in foretell({"random-label-mnist": [*world(), dead]})[0].rows]


def test_what_starts_anew_is_not_asked():
    (found,) = foretell({"random-label-mnist": [*world(), made("scratch", FLAT)]})
    assert "scratch" not in [rows.method for rows in found.rows]


def test_a_metric_that_warns_ranks_high_and_noise_does_not():
    (found,) = foretell({"random-label-mnist": world()})
    assert found.auc("sign_entropy").value > 0.8
    assert found.auc("weight_norm").value == pytest.approx(0.5, abs=0.15)
    assert found.auc("online_accuracy").value == pytest.approx(0.5, abs=0.1)  # it has not fallen yet


def test_the_auc_counts_pairs_and_ties_count_a_half():
    rng = np.random.default_rng(0)
    rows = []
    for method in ("a", "b", "c"):
        scores = rng.integers(0, 4, 20).astype(float)
        rows.append(Rows(method, dict.fromkeys(METRICS, scores), rng.random(20) < 0.4, {}))
    scores = np.concatenate([one.metrics["loss"] for one in rows])
    falls = np.concatenate([one.falls for one in rows])
    pairs = [(x > y) + (x == y) / 2 for x, y in product(scores[falls], scores[~falls])]
    found = Foretelling("random-label-mnist", rows).auc("loss")
    assert found.value == pytest.approx(np.mean(pairs))
    assert found.low <= found.value <= found.high


def test_the_gain_is_nothing_where_accuracy_says_it_all_and_something_where_it_does_not():
    first = foretell({"random-label-mnist": world(), "random-label-cifar10": world()})
    one, other = first
    assert one.gain("sign_entropy", [other]).value > 0.1
    assert one.gain("weight_norm", [other]).value == pytest.approx(0, abs=0.2)


def test_runs_that_diverge_have_a_fall_ahead():
    short = define("random-label-mnist", "linear", 3, tasks=TASKS)
    rows = [{"task": task, **dict.fromkeys(METRICS, 1.0), "online_accuracy": 0.8} for task in range(30)]
    diverged = Summary("linear", [result_of(short, rows, state="diverged")])
    (found,) = foretell({"random-label-mnist": [*world(), diverged]})
    (linear,) = [rows for rows in found.rows if rows.method == "linear"]
    assert linear.falls.any()


def test_the_figure_has_a_panel_for_each_benchmark_with_falls():
    panels = [Panel("random labels", world()), Panel("flat", [made("adalin", FLAT, "permuted-mnist")] * 2)]
    figure = draw_foretelling(panels)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Random-label MNIST"]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(NAMES.values())
    assert draw_foretelling([Panel("empty", [])]).texts
