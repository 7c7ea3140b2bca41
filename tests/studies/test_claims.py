"""The claims are judged on a made-up world in which all that can hold do, and on worlds that differ in one thing."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from adalin.data import DIGITS_SHA256 as DIGITS
from adalin.methods import Method
from adalin.report import Summary, summarise
from adalin.streams import benchmarks
from adalin.studies import CLAIMS, judge_claims
from adalin.studies._checks import PlasticityCheck
from adalin.studies._evidence import MissingError, PaperRuns
from adalin.studies._paper import MAIN_BENCHMARKS, MAIN_METHODS, SWEEP_SEEDS, hyper_parameters
from adalin.studies._recipes import BUDGETS
from made_results import define, result_of
from own_benchmarks import put_in_place

TASKS = 20
RL_MNIST, RL_CIFAR, SHUFFLED, SPLIT = (
    "random-label-mnist",
    "random-label-cifar10",
    "shuffled-label-cifar10",
    "class-split-cifar100",
)
BY_ID = {claim.id: claim for claim in CLAIMS}

FLAT = np.ones(TASKS)
FALLS = np.linspace(0.8, 0.5, TASKS)


def collapses(chance=0.1, task=10):
    """Near chance from this task on, counted from 1."""
    return np.where(np.arange(1, TASKS + 1) < task, 0.8, chance)


@pytest.fixture
def _papers_tasks(monkeypatch):
    """As many as the runs made here have."""
    for benchmark in benchmarks().values():
        put_in_place(monkeypatch, replace(benchmark, settings=replace(benchmark.settings, tasks=TASKS)))


def summary(benchmark, method, *, seeds=(3, 4, 5), settings=None, diverged_at=None, noise=0.005, **metrics):
    """Runs with these curves and a little noise; lists of lists (alpha, saturation) as they are, in each task."""
    results = []
    chosen = hyper_parameters(benchmark, method) | {"tasks": TASKS} | (settings or {})
    for seed in seeds:
        run = define(benchmark, method, seed, **chosen)
        rng = np.random.default_rng(seed)
        rows = [{"task": task} for task in range(run.tasks if diverged_at is None else diverged_at)]
        for row in rows:
            for name, curve in metrics.items():
                value = curve[row["task"]]
                row[name] = value if isinstance(value, list) else float(value * (1 + noise * rng.standard_normal()))
        state = "running" if diverged_at is None else "diverged"
        results.append(result_of(run, rows, state=state))
    return Summary(method, results)


def find(runs, benchmark, method):
    """The one that judges claims, or None."""
    try:
        return runs.find_all(benchmark, [method])[0]
    except MissingError:
        return None


@cache
def world():
    """(benchmark, method) -> metrics."""
    accuracies = dict(zip(MAIN_METHODS, (0.7, 0.85, 0.8, 0.8, 0.5, 0.75, 0.7, 0.72), strict=True))
    sranks = {"crelu": 60, "adalin": 40, "scratch": 42}
    rises = FLAT * 30 - FALLS * 10
    curves = {}
    for benchmark in MAIN_BENCHMARKS:
        for method, accuracy in accuracies.items():
            srank = sranks.get(method, 35)
            curves[benchmark, method] = {
                "online_accuracy": FLAT * accuracy,
                "test_accuracy": FLAT * (0.6 if method == "adalin" else 0.5),
                "sign_entropy": FLAT * (0.85 if method == "scratch" else 0.8),
                "weight_norm": rises if method in ("baseline", "adalin", "linear") else FLAT * 10,
                "srank": FLAT * srank,
                "weight_srank": [[srank / 2, srank / 2]] * TASKS,
            }
        curves[benchmark, "baseline"] |= {"sign_entropy": FALLS}
        for method in ("adalin:gate=none", "adalin:granularity=layer", "adalin:granularity=network"):
            curves[benchmark, method] = {"online_accuracy": FLAT * 0.8}
        for method in ("adalin-tanh", "adalin-gelu", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic"):
            curves[benchmark, method] = {"online_accuracy": FLAT * 0.85}
        for method in ("tanh", "gelu"):
            curves[benchmark, method] = {"online_accuracy": FALLS}
    for benchmark in (RL_MNIST, RL_CIFAR):
        curves[benchmark, "baseline"] |= {"online_accuracy": collapses()}
        curves[benchmark, "interpolation"] = {"online_accuracy": FALLS}
        curves[benchmark, "adalin:granularity=layer"] = {"online_accuracy": FALLS}
        curves[benchmark, "adalin"] |= {
            "alpha": [[[-0.1, -0.2, -1.0], [-0.1, -0.3, 1.2 - 0.001 * task]] for task in range(TASKS)],
            "saturation": [[[0.9, 0.8, 0.0], [0.7, 0.9, 0.05]]] * TASKS,
        }
    for benchmark in (SPLIT, RL_CIFAR):
        curves[benchmark, "adalin:granularity=network"] = {"online_accuracy": FALLS}
    for benchmark in (SPLIT, "permuted-mnist"):
        curves[benchmark, "adalin"] |= {"sign_entropy": FLAT * 0.9}
    curves[RL_MNIST, "adalin-gelu:gate=none"] = {"online_accuracy": FALLS}
    curves[RL_MNIST, "prelu"] = {"online_accuracy": FLAT * 0.8}
    curves[RL_CIFAR, "shrink-perturb"] |= {"online_accuracy": FALLS}
    curves[SPLIT, "crelu"] |= {"online_accuracy": collapses(0.2)}
    for method in ("fourier", "l2"):
        curves[SHUFFLED, method] |= {"online_accuracy": FALLS}
    for method in ("fourier", "linear"):
        curves[SHUFFLED, method] |= {"test_accuracy": FALLS}
    return curves


@cache
def made(benchmark, method):
    return summary(benchmark, method, **world()[benchmark, method])


def summaries(changed=None, without=()):
    """The world, with other metrics of some methods, and without some methods."""
    changed = changed or {}
    return [
        summary(*key, **world()[key] | changed[key]) if key in changed else made(*key)
        for key in world()
        if key not in without
    ]


def judge(claim, *args, **kwargs):
    return BY_ID[claim].judge(PaperRuns(summaries(*args, **kwargs)))


def judge_plasticity(*entries, benchmark=RL_MNIST, method="adalin", kept=True):
    return PlasticityCheck(benchmark, method, kept).judge(PaperRuns(entries))


def test_every_claim_is_there_once_and_can_be_judged_without_any_runs():
    assert list(dict.fromkeys(claim.number for claim in CLAIMS)) == [f"C{number}" for number in range(1, 24)]
    assert len(BY_ID) == len(CLAIMS)
    for verdict in judge_claims([]):
        assert verdict.findings
        assert verdict.outcome == ("reproduced" if verdict.claim == "C19" else "undecided")


def test_claims_of_a_number_are_judged_together():
    assert [verdict.claim for verdict in judge_claims([], ["C8", "C5"])] == ["C5", "C8a", "C8b"]


def test_methods_of_claims_are_written_as_runs_write_them():
    for claim in CLAIMS:
        for check in claim.checks:
            for name in ("method", "other", "reference"):
                if text := getattr(check, name, None):
                    assert str(Method.parse(text)) == text


@pytest.mark.usefixtures("_papers_tasks")
def test_all_but_what_was_not_run_is_reproduced_in_a_world_made_so():
    verdicts = {verdict.claim: verdict for verdict in judge_claims(summaries())}
    expected = dict.fromkeys(BY_ID, "reproduced") | {"C10": "undecided", "C11": "undecided"}
    assert {claim: verdict.outcome for claim, verdict in verdicts.items()} == expected
    for claim, verdict in verdicts.items():
        for finding in verdict.findings:
            assert finding.statement
            if claim not in ("C10", "C11", "C19"):
                assert "3 seeds (3, 4, 5)" in finding.numbers
                assert "20 tasks" in finding.numbers


def test_the_same_world_at_a_smaller_scale_tests_nothing_but_where_the_papers_tasks_are_as_few():
    for verdict in judge_claims(summaries()):
        if verdict.claim not in ("C10", "C11", "C19"):
            only_split = all(SPLIT in finding.statement for finding in verdict.findings)
            is_tested = any(SPLIT in finding.statement for finding in verdict.findings)
            assert (verdict.outcome != "not tested at scale") == (is_tested or verdict.claim == "C21")
            assert (str(verdict) == "reproduced 1/1") == (only_split and len(verdict.findings) == 1)


ACCURACY = "online_accuracy"
OTHERWISE = [
    ("C1a", (RL_MNIST, "gelu"), {ACCURACY: FLAT * 0.8}),
    ("C1b", (RL_MNIST, "prelu"), {ACCURACY: FLAT * 0.3}),
    ("C2", (RL_MNIST, "adalin-tanh"), {ACCURACY: FALLS}),
    *(("C3", (benchmark, "adalin"), {ACCURACY: FALLS}) for benchmark in MAIN_BENCHMARKS),
    ("C4a", (SHUFFLED, "scratch"), {ACCURACY: FLAT * 0.9}),
    ("C4a", ("permuted-mnist", "scratch"), {ACCURACY: FLAT * 0.85, "noise": 0.0}),
    ("C4b", (SHUFFLED, "shrink-perturb"), {ACCURACY: FLAT * 0.84}),
    ("C5", (SPLIT, "crelu"), {ACCURACY: FLAT * 0.6}),
    ("C5", (SPLIT, "crelu"), {ACCURACY: collapses(0.2, task=3)}),
    ("C6", (RL_CIFAR, "baseline"), {ACCURACY: FALLS}),
    ("C7", (SHUFFLED, "l2"), {ACCURACY: FLAT * 0.8}),
    ("C8a", (SPLIT, "linear"), {ACCURACY: FALLS}),
    ("C8b", (SPLIT, "linear"), {ACCURACY: FLAT}),
    ("C9a", (SPLIT, "l2"), {"test_accuracy": FLAT * 0.7}),
    ("C9b", (SHUFFLED, "adalin"), {"test_accuracy": FLAT * 0.4}),
    ("C9c", (SHUFFLED, "linear"), {"test_accuracy": FLAT * 0.5}),
    ("C12a", (RL_CIFAR, "adalin:granularity=network"), {ACCURACY: FLAT * 0.8}),
    ("C12b", (SHUFFLED, "adalin:granularity=layer"), {ACCURACY: FLAT * 0.9}),
    ("C13a", (SHUFFLED, "adalin:gate=none"), {ACCURACY: FLAT * 0.86}),
    ("C13b", (RL_MNIST, "adalin-gelu:gate=none"), {ACCURACY: FLAT * 0.8}),
    ("C14", (SPLIT, "adalin-tanh:gate=linear"), {ACCURACY: FLAT * 0.8}),
    ("C15", (RL_MNIST, "interpolation"), {ACCURACY: FLAT * 0.8}),
    ("C16a", (SPLIT, "baseline"), {"sign_entropy": FLAT * 0.5}),
    ("C16a", (SPLIT, "scratch"), {"sign_entropy": FALLS}),
    ("C16b", (SPLIT, "adalin"), {"sign_entropy": FLAT * 0.2}),
    ("C17a", ("permuted-mnist", "baseline"), {"weight_norm": FLAT}),
    ("C17b", (SPLIT, "linear"), {"weight_norm": FLAT}),
    ("C17c", (SHUFFLED, "adalin"), {"weight_srank": [[10.0, 10.0]] * TASKS}),
    ("C17d", (SPLIT, "baseline"), {"weight_srank": [[30.0 - task] for task in range(TASKS)]}),
    ("C17e", (RL_MNIST, "fourier"), {"weight_srank": [[40.0, 30.0]] * TASKS}),
    ("C17f", (SHUFFLED, "adalin"), {"srank": FLAT * 20}),
    ("C17g", (RL_MNIST, "baseline"), {"srank": FALLS * 50}),
    ("C17h", (RL_MNIST, "fourier"), {"srank": FLAT * 70}),
    ("C18a", (RL_CIFAR, "adalin"), {"saturation": [[[0.9, 0.2, 0.0], [0.2, 0.2, 0.05]]] * TASKS}),
    ("C18b", (RL_CIFAR, "adalin"), {"alpha": [[[0.4, 0.2, -1.0], [0.1, 0.3, 1.0]]] * TASKS}),
    ("C18b", (RL_CIFAR, "adalin"), {"alpha": [[[-0.7, -0.9, -1.0], [-0.7, -0.9, 1.0]]] * TASKS}),
    ("C18c", (RL_CIFAR, "adalin"), {"alpha": [[[-0.1] * 2 + [1 - t / 9], [-0.1] * 2 + [2.0]] for t in range(TASKS)]}),
    ("C18d", (RL_MNIST, "adalin"), {"alpha": [[[-0.1] * 2 + [-t / 9], [-0.1] * 2 + [t / 9]] for t in range(TASKS)]}),
    ("C20", (SPLIT, "fourier"), {ACCURACY: FLAT * 0.9}),
    ("C21", (SPLIT, "crelu"), {ACCURACY: FLAT * 0.8}),
    ("C22a", (SPLIT, "tanh"), {ACCURACY: FLAT * 0.7}),
    ("C22b", (SPLIT, "adalin-tanh"), {ACCURACY: FLAT * 0.3}),
    ("C23", (SPLIT, "adalin"), {"sign_entropy": FLAT * 0.5}),
]


@pytest.mark.parametrize(("claim", "key", "metrics"), OTHERWISE)
@pytest.mark.usefixtures("_papers_tasks")
def test_one_thing_that_is_otherwise_refutes_a_claim(claim, key, metrics):
    verdict = judge(claim, {key: metrics})
    assert verdict.outcome == ("not reproduced" if len(verdict.findings) == 1 else "in part")
    refuted = [finding for finding in verdict.findings if finding.outcome == "does not hold"]
    assert len(refuted) < len(verdict.findings) or len(verdict.findings) == 1


def test_each_claim_about_runs_is_refuted_above():
    assert {claim for claim, *_ in OTHERWISE} == BY_ID.keys() - {"C10", "C11", "C19"}


@pytest.mark.parametrize(
    ("claim", "key"),
    [
        *[("C1b", (RL_MNIST, "prelu")), ("C2", (RL_MNIST, "adalin-tanh")), ("C3", (SPLIT, "adalin"))],
        *[("C4a", (SPLIT, "scratch")), ("C5", (SPLIT, "crelu")), ("C6", (RL_CIFAR, "baseline"))],
        *[("C7", (SHUFFLED, "l2")), ("C8b", (SPLIT, "l2")), ("C9a", (SPLIT, "shrink-perturb"))],
        *[("C12a", (SPLIT, "adalin:granularity=network")), ("C13b", (RL_MNIST, "adalin-gelu:gate=none"))],
        *[("C14", (SPLIT, "adalin-tanh:gate=linear")), ("C15", (RL_MNIST, "interpolation"))],
        *[("C16a", (SPLIT, "scratch")), ("C17h", (SPLIT, "linear")), ("C18b", (RL_MNIST, "adalin"))],
        *[("C20", (SPLIT, "linear")), ("C21", (SPLIT, "l2")), ("C22a", (SPLIT, "gelu"))],
    ],
)
@pytest.mark.usefixtures("_papers_tasks")
def test_a_missing_method_leaves_a_claim_undecided_and_is_named(claim, key):
    verdict = judge(claim, without=[key])
    assert verdict.outcome in ("undecided", "in part")
    missing = [finding.numbers for finding in verdict.findings if finding.outcome == "undecided"]
    assert missing
    assert set(missing) == {f"no runs of {key[1]} on {key[0]} with the paper's learning rate and batch size"}


def test_c10_is_judged_by_the_test_accuracy_of_the_last_tasks():
    name = "class-incremental-cifar100"
    rivals = [summary(name, method, test_accuracy=FLAT * 0.6) for method in ("baseline", "crelu", "fourier")]
    late, early = np.linspace(0.4, 0.7, TASKS), np.linspace(0.8, 0.5, TASKS)
    for curve, outcome in ((late, "holds"), (early, "does not hold")):
        runs = PaperRuns([*rivals, summary(name, "adalin", test_accuracy=curve)])
        assert BY_ID["C10"].judge(runs).findings[0].outcome == outcome


def test_c19_counts_what_the_networks_have_and_says_what_the_paper_counts():
    mlp, cnn = BY_ID["C19"].judge(PaperRuns([])).findings
    assert mlp.numbers.startswith("200 of 89,610 (0.22%)")
    assert "210" in mlp.numbers
    assert cnn.numbers.startswith("96 of 39,796 (0.24%)")
    assert replace(BY_ID["C19"].checks[0], shape=(1, 1, 1)).judge(PaperRuns([])).outcome == "does not hold"


@pytest.mark.parametrize(("end", "outcome"), [(0.79, "holds"), (0.75, "undecided"), (0.7, "does not hold")])
@pytest.mark.usefixtures("_papers_tasks")
def test_plasticity_is_kept_lost_or_undecided_by_the_interval_of_the_change(end, outcome):
    entry = summary(RL_MNIST, "adalin", noise=0.02, online_accuracy=np.where(np.arange(TASKS) < 10, 0.8, end))
    assert judge_plasticity(entry).outcome == outcome
    opposite = {"holds": "does not hold", "does not hold": "holds", "undecided": "undecided"}
    assert judge_plasticity(entry, kept=False).outcome == opposite[outcome]


def test_what_has_not_come_in_fewer_tasks_than_the_papers_may_come_later():
    runs = PaperRuns([summary(name, "baseline", online_accuracy=FALLS) for name in (RL_MNIST, RL_CIFAR)])
    assert [finding.outcome for finding in BY_ID["C6"].judge(runs).findings] == ["undecided"] * 2
    assert judge_plasticity(summary(RL_MNIST, "adalin", online_accuracy=FLAT * 0.8), kept=False).outcome == "undecided"


def test_a_diverged_run_has_lost_plasticity_whenever_it_diverged():
    for task in (0, 3, 15):
        entry = summary(RL_MNIST, "adalin", diverged_at=task, online_accuracy=FLAT * 0.8)
        finding = judge_plasticity(entry)
        assert finding.outcome == "does not hold"
        assert "3 runs diverged" in finding.numbers
    one = summary(RL_MNIST, "adalin", seeds=(3,), diverged_at=0, online_accuracy=FLAT)
    for seeds in ((4, 5), range(4, 14)):
        healthy = summary(RL_MNIST, "adalin", seeds=seeds, online_accuracy=FLAT * 0.8)
        assert judge_plasticity(Summary("adalin", [*healthy.results, *one.results])).outcome == "undecided"


def test_what_never_learned_has_not_kept_plasticity():
    assert judge_plasticity(summary(RL_MNIST, "adalin", online_accuracy=FLAT * 0.1)).outcome == "undecided"


def test_too_few_tasks_or_seeds_decide_nothing():
    few = judge_plasticity(summary(RL_MNIST, "adalin", settings={"tasks": 9}, online_accuracy=FLAT * 0.8))
    assert (few.outcome, few.numbers[:12]) == ("undecided", "only 9 tasks")
    one = judge_plasticity(summary(RL_MNIST, "adalin", seeds=(3,), online_accuracy=FLAT * 0.8))
    assert (one.outcome, one.numbers[:7]) == ("undecided", "1 seeds")


def test_a_metric_that_rows_lack_is_named():
    entries = summaries({(SPLIT, "adalin"): {"test_accuracy": [[]] * TASKS}})
    assert "no test_accuracy" in BY_ID["C9a"].judge(PaperRuns(entries)).findings[0].numbers
    entries = summaries({(RL_MNIST, "adalin"): {"alpha": [[]] * TASKS}})
    assert "no alpha" in BY_ID["C18b"].judge(PaperRuns(entries)).findings[0].numbers


def test_only_the_papers_hyper_parameters_count():
    for settings in ({"lr": 1e-3}, {"batch_size": 64}, {"inputs": "kumar2023"}, {"init": "he-normal"}):
        assert (
            find(PaperRuns([summary(RL_MNIST, "adalin", settings=settings, online_accuracy=FLAT)]), RL_MNIST, "adalin")
            is None
        )
    fourier = summary(RL_CIFAR, "fourier", online_accuracy=FLAT)
    found = find(PaperRuns([fourier]), RL_CIFAR, "fourier")
    assert found is not None
    assert (found.config["lr"], found.config["batch_size"]) == (1e-3, 32)
    plain = summary(RL_CIFAR, "fourier", settings={"lr": 1e-2, "batch_size": 16}, online_accuracy=FLAT)
    assert find(PaperRuns([plain]), RL_CIFAR, "fourier") is None


def test_the_papers_epochs_and_data_come_before_more_tasks():
    whole = summary(RL_MNIST, "adalin", online_accuracy=FLAT)
    short = summary(RL_MNIST, "adalin", settings={"epochs": 5, "tasks": 40}, online_accuracy=np.ones(40))
    digits = summary(RL_MNIST, "adalin", settings={"data": DIGITS, "tasks": 40}, online_accuracy=np.ones(40))
    for order in ([whole, short, digits], [digits, short, whole]):
        found = find(PaperRuns(order), RL_MNIST, "adalin")
        assert found is not None
        assert found.config == whole.config
    begun = summary(RL_MNIST, "adalin", settings={"tasks": 3}, online_accuracy=FLAT)
    found = find(PaperRuns([begun, short]), RL_MNIST, "adalin")
    assert found is not None
    assert found.config == short.config


def test_the_scale_is_told_where_it_is_not_the_papers():
    settings = {"epochs": 5, "images": 600, "data": DIGITS}
    finding = judge_plasticity(summary(RL_MNIST, "adalin", settings=settings, online_accuracy=FLAT * 0.8))
    note = "20 of 250 tasks, 5 epochs instead of 200, 600 images instead of 1200, the bundled digits"
    assert note in finding.numbers
    papers = summary(RL_MNIST, "adalin", settings={"tasks": 250}, online_accuracy=np.full(250, 0.8))
    assert "scale" not in judge_plasticity(papers).numbers


def test_methods_are_compared_at_one_scale_only():
    adalin = summary(SPLIT, "adalin", online_accuracy=FLAT * 0.8)
    scratch = summary(SPLIT, "scratch", settings={"epochs": 5}, online_accuracy=FLAT * 0.7)
    check = BY_ID["C4a"].checks[-1]
    assert "with the same epochs" in check.judge(PaperRuns([adalin, scratch])).numbers
    both = summary(SPLIT, "adalin", settings={"epochs": 5}, online_accuracy=FLAT * 0.6)
    assert check.judge(PaperRuns([adalin, scratch, both])).outcome == "does not hold"


def test_seeds_that_chose_hyper_parameters_do_not_judge_claims():
    chose = summary(RL_MNIST, "adalin", seeds=(0, 1, 2), online_accuracy=FALLS)
    reported = summary(RL_MNIST, "adalin", online_accuracy=FLAT * 0.8)
    for order in ([*chose.results, *reported.results], [*reported.results, *chose.results]):
        assert judge_plasticity(*summarise(order, choosing=SWEEP_SEEDS)).outcome == "holds"
    alone = judge_plasticity(chose)
    assert alone.outcome == "does not hold"
    assert "the seeds that chose the hyper-parameters" in alone.numbers


def test_no_gate_is_adalin_without_a_gate():
    runs = PaperRuns([summary(RL_MNIST, "no-gate:base=gelu", online_accuracy=FALLS)])
    assert find(runs, RL_MNIST, "adalin-gelu:gate=none") is not None
    assert find(runs, RL_MNIST, "adalin:gate=none") is None


@pytest.mark.parametrize("settings", [{"clip": 0.5}, {"precision": "bfloat16"}, {"model": "cnn"}, {"steps": 10}])
def test_runs_that_are_not_the_papers_do_not_take_the_place_of_those_that_are(settings):
    papers = summary("random-label-mnist", "baseline", online_accuracy=FALLS)
    others = summary("random-label-mnist", "baseline", settings=settings, online_accuracy=FLAT)
    for given in ([papers, others], [others, papers]):
        assert find(PaperRuns(given), "random-label-mnist", "baseline").config == papers.config


def test_c10_is_judged_with_a_smaller_network_and_says_so():
    short = BUDGETS["short"]["class-incremental-cifar100"]
    methods = ("baseline", "crelu", "fourier", "adalin")
    curves = {method: FLAT * (0.9 if method == "adalin" else 0.5) for method in methods}
    made = [
        summary("class-incremental-cifar100", method, settings=dict(short), test_accuracy=curve)
        for method, curve in curves.items()
    ]
    verdict = BY_ID["C10"].judge(PaperRuns(made))
    assert (verdict.outcome, verdict.findings[0].outcome) == ("not tested at scale", "holds")
    assert "resnet18-narrow (lr 0.01, batches of 50) instead of resnet18" in verdict.findings[0].numbers
    # Nor does it matter what else was tried with it.
    for seeds in ((3, 4, 5), (0, 1, 2)):
        slower = {"settings": {**short, "lr": 1e-4}, "seeds": seeds, "test_accuracy": FLAT * 0.1}
        other = summary("class-incremental-cifar100", "adalin", **slower)
        for given in ([*made, other], [other, *made]):
            assert BY_ID["C10"].judge(PaperRuns(given)) == verdict


def test_what_is_above_its_first_tasks_but_below_the_next_and_its_best_has_lost():
    rises_and_falls = np.concatenate((np.full(5, 0.6), np.full(200, 0.95), np.full(45, 0.8)))
    whole = summary(RL_MNIST, "adalin", settings={"tasks": 250}, online_accuracy=rises_and_falls)
    finding = judge_plasticity(whole)
    assert finding.outcome == "does not hold"
    assert "against the first tasks 0.2" in finding.numbers
    assert "against the best tasks -0.1" in finding.numbers


def test_a_fall_from_the_best_tasks_alone_is_kept_for_certain_only_at_the_papers_scale():
    peak = np.concatenate((np.full(10, 0.8), np.full(5, 0.95), np.full(5, 0.8)))
    assert judge_plasticity(summary(RL_MNIST, "adalin", online_accuracy=peak)).outcome == "undecided"
    whole = summary(RL_MNIST, "adalin", settings={"tasks": 250}, online_accuracy=peak.repeat(13)[:250])
    assert judge_plasticity(whole).outcome == "holds"


def test_what_three_seeds_leave_open_says_how_many_would_decide():
    ends = {3: 0.51, 4: 0.57, 5: 0.68}
    results = []
    for seed, end in ends.items():
        curve = np.where(np.arange(TASKS) < 10, 0.8, end)
        results += summary(SPLIT, "l2", seeds=(seed,), online_accuracy=curve).results
    finding = judge_plasticity(Summary("l2", results), benchmark=SPLIT, method="l2", kept=False)
    assert finding.outcome == "undecided"
    assert "seeds would decide" in finding.numbers


def test_all_seeds_that_diverge_early_need_no_more_tasks():
    entry = summary(RL_MNIST, "adalin", diverged_at=3, online_accuracy=FLAT * 0.8)
    assert judge_plasticity(entry, kept=False).smaller == ()


def test_quotes_are_words_and_each_claim_has_its_own():
    for claim in CLAIMS:
        assert len(claim.quote.split()) > 3


@pytest.mark.parametrize("settings", [{"epochs": 4}, {"images": 500}])
def test_a_collapse_is_not_refuted_by_less_training(settings):
    check = BY_ID["C5"].checks[0]
    assert check.judge(PaperRuns([summary(SPLIT, "crelu", online_accuracy=FLAT * 0.8)])).outcome == "does not hold"
    less = summary(SPLIT, "crelu", settings=settings, online_accuracy=FLAT * 0.8)
    assert check.judge(PaperRuns([less])).outcome == "undecided"


@pytest.mark.parametrize(("adalin", "outcome"), [(0.7, "holds"), (0.46, "holds"), (0.4, "does not hold")])
def test_sign_entropy_above_that_of_scratch_is_as_the_paper_says(adalin, outcome):
    entropies = {"adalin": adalin, "baseline": 0.42, "scratch": 0.48}
    entries = [summary(SPLIT, method, sign_entropy=FLAT * value) for method, value in entropies.items()]
    check = next(one for one in BY_ID["C16b"].checks if one.benchmark == SPLIT)
    assert check.judge(PaperRuns(entries)).outcome == outcome
