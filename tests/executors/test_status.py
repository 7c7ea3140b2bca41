"""What a folder tells of its runs while they are trained, and after."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adalin.executors import Local, RunStatus, Status, StatusReader, _submission
from adalin.executors._submission import Submission
from adalin.report import status_json
from adalin.runs import RunFolder
from executor_runs import Notes, make_work

RUN = ("run", "random-label-mnist", "--seeds", "3", "4", "--epochs", "1", "--images", "48", "--data", "bundled")


def counts(out: Path) -> dict[str, int]:
    return {state: count for state, count in StatusReader(out).read().counts.items() if count}


def test_status_and_show_list_settings_in_one_order(adalin):
    methods = ("crelu", "adam+tanh", "adalin", "baseline")
    adalin(*RUN, "--tasks", "1", "--workers", "1", "--methods", *methods)
    names = "|".join(map(re.escape, methods))
    status, shown = (re.findall(rf"(?<!\S)({names}) ", adalin(command, "runs")[1]) for command in ("status", "show"))
    assert status[:4] == shown == ["baseline", "adalin", "crelu", "adam+tanh"]


def test_status_of_finished_runs_is_printed_for_people_and_for_scripts(adalin):
    adalin(*RUN, "--tasks", "2", "--workers", "1")
    code, out, err = adalin("status")
    assert (code, err) == (0, "")
    assert "4 done, 100% of all steps" in out
    assert "best on random-label-mnist-v1: " in out
    code, watched, _ = adalin("watch")  # ends, as there is nothing to wait for
    assert code == 0
    assert watched.split() == out.split()
    code, out, _ = adalin("status", "--json")
    status = json.loads(out)
    assert code == 0
    assert status["counts"]["done"] == 4
    assert {one["state"] for one in status["runs"]} == {"done"}
    assert [one["tasks"] for one in status["runs"]] == [2] * 4
    assert status["best"]["random-label-mnist-v1"]["score"] == max(
        sum(one["score"] for one in status["runs"] if one["method"] == method) / 2 for method in ("baseline", "adalin")
    )


@pytest.mark.parametrize("damage", ["rows.jsonl", "checkpoint"])
def test_a_run_that_was_damaged_is_named_and_the_others_are_counted(damage, adalin):
    adalin(*RUN, "--tasks", "2", "--workers", "1")
    folder = RunFolder.find(Path("runs"))[0].path
    for path in folder.glob(f"{damage}*"):
        path.write_bytes(path.read_bytes().replace(b":", b";", 1))
    for command in ("status", "watch"):
        code, out, err = adalin(command)
        assert (code, err) == (1, "")
        assert "3 done, 1 failed" in out
        assert f"failed: {folder.relative_to('runs')}: " in out
        assert "delete the folder to start the run anew" in " ".join(out.split())


def test_a_run_that_is_damaged_while_somebody_watches_is_named_and_goes_on_when_it_is_mended(tmp_path):
    work, reader = make_work(tmp_path, workers=1), StatusReader(tmp_path)
    Local().train(work, Notes())
    assert reader.read().counts["done"] == 4
    rows = tmp_path / work.runs[0].folder / "rows.jsonl"
    intact = rows.read_bytes()
    rows.unlink()
    assert reader.read().counts["failed"] == 1
    rows.write_bytes(intact)
    assert reader.read().counts["done"] == 4


def test_the_status_of_a_part_of_the_runs_and_of_folders_above_is_told_too(tmp_path):
    work = make_work(tmp_path / "runs", workers=1)
    submission = Submission.start(work, "local", 0)
    Local().train(work, Notes())
    assert counts(tmp_path / "runs") == counts(tmp_path) == counts(tmp_path / "runs" / work.runs[0].benchmark)
    assert counts((tmp_path / "runs" / work.runs[0].folder).parent) == {"done": 2}
    submission.forget()


def test_a_setting_that_diverged_is_not_the_best_by_what_it_did_before(tmp_path):
    runs = make_work(tmp_path, tasks=4).runs
    good, bad = {run.method: run for run in runs}.values()
    rows = [{"online_accuracy": 0.9}]
    done, diverged = (
        RunStatus(run, run.folder, state, steps=0, rows=rows * count)
        for run, state, count in ((good, "done", 4), (bad, "diverged", 2))
    )
    assert (done.score, diverged.score) == pytest.approx((0.9, 0.45))
    at_once = RunStatus(bad, bad.folder, "diverged", steps=0, rows=[])
    assert Status([at_once, diverged, done], None, []).best == {good.benchmark: (good, pytest.approx(0.9))}


def test_nobody_waits_for_the_tasks_of_a_command_of_ray_that_is_dead(tmp_path):
    submission = Submission.start(make_work(tmp_path), "ray", 0)
    assert counts(tmp_path) == {"waiting": 4}
    submission.pid = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout
    submission.pid = int(submission.pid)
    submission.write()
    assert counts(tmp_path) == {"stopped": 4}


def test_a_command_that_is_over_does_not_hide_the_tasks_that_others_have_added(tmp_path):
    submission, reader = Submission.start(make_work(tmp_path, tasks=1), "slurm", 0), StatusReader(tmp_path)
    Local().train(make_work(tmp_path, workers=1, tasks=3), Notes())
    assert {(one.state, one.run.tasks, len(one.rows)) for one in reader.read().runs} == {("done", 1, 1)}
    submission.end()
    for later in (reader, StatusReader(tmp_path)):
        assert {(one.state, one.run.tasks, len(one.rows)) for one in later.read().runs} == {("done", 3, 3)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_whatever_a_submission_says_the_status_is_told(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    submission = Submission.start(make_work(out), "local", 0)
    path = submission.folder / "submission.json"
    content = json.loads(path.read_text())
    place = content if data.draw(st.booleans()) else content["runs"][0]
    name = data.draw(st.sampled_from([*place, "more"]))
    place.pop(name, None)
    if data.draw(st.booleans()):
        place[name] = data.draw(JSON)
    path.write_text(json.dumps(content))
    status_json(StatusReader(out).read())


def test_nobody_else_may_write_where_jobs_are_whatever_the_umask(tmp_path):
    (tmp_path / ".jobs").mkdir(mode=0o777)
    before = os.umask(0)
    try:
        folder = Submission.start(make_work(tmp_path), "slurm", 0).folder
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]


def test_what_another_version_notes_of_a_submission_is_passed_over(tmp_path):
    path = Submission.start(make_work(tmp_path), "local", 0).folder / "submission.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"more": [1], "folder": "elsewhere"}))
    assert counts(tmp_path) == {"waiting": 4}


def test_watching_without_a_pause_is_refused(adalin):
    Path("runs").mkdir()
    assert adalin("watch", "--every", "0") == (
        2,
        "",
        "adalin: every must be a number of seconds above 0 and at most 3,600, not 0.0\n",
    )


def test_a_folder_that_is_not_there_is_told_in_one_line(adalin):
    assert adalin("watch", "nowhere") == (2, "", "adalin: there is no folder nowhere\n")


def test_runs_are_running_and_then_done_as_a_command_goes_on(tmp_path):
    work, seen = make_work(tmp_path, workers=1), []
    Local().train(work, Notes(at_first_row=lambda: seen.append(counts(tmp_path))))
    assert seen == [{"running": 1, "waiting": 3}]
    assert counts(tmp_path) == {"done": 4}


@contextmanager
def held(folder: RunFolder) -> Iterator[None]:
    """Locked by another process."""
    program = (
        "import sys, time; from pathlib import Path; from adalin.runs import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).lock(): print('locked', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(folder.path)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"locked\n"
            yield
        finally:
            holder.kill()


def test_a_run_is_running_while_its_lock_is_held_and_stopped_when_its_command_is_killed(tmp_path):
    work = make_work(tmp_path)
    first = RunFolder(tmp_path / work.runs[0].folder)
    submission = Submission.start(work, "local", 0)
    assert counts(tmp_path) == {"waiting": 4}
    with held(first):
        assert counts(tmp_path) == {"running": 1, "waiting": 3}
    assert counts(tmp_path) == {"waiting": 4}
    long_ago = time.time() - 2 * _submission.SILENT_SECONDS
    os.utime(submission.folder / "submission.json", (long_ago, long_ago))
    assert counts(tmp_path) == {"stopped": 4}


def test_a_run_of_another_machine_is_running_while_its_folder_changes(tmp_path):
    work = make_work(tmp_path, checkpoint_seconds=60.0)
    folder = tmp_path / work.runs[0].folder
    folder.mkdir(parents=True)
    (folder / "lock").write_text("1 elsewhere\n")
    Submission.start(work, "slurm", 0)
    assert counts(tmp_path) == {"running": 1, "waiting": 3}
    long_ago = time.time() - 1000
    os.utime(folder / "lock", (long_ago, long_ago))
    assert counts(tmp_path) == {"waiting": 4}


def test_what_has_failed_is_shown_with_its_message_and_the_exit_code_is_1(adalin):
    work = make_work(Path("runs"))
    submission = Submission.start(work, "ray", 0)
    submission.failed[str(work.runs[0].folder)] = "out of luck"
    submission.end()
    code, out, _ = adalin("status")
    assert code == 1
    assert f"failed: {work.runs[0].folder}: out of luck" in out
    assert "1 failed" in out
    assert "3 stopped" in out
    with held(RunFolder(Path("runs", work.runs[0].folder))):
        assert counts(Path("runs")) == {"running": 1, "stopped": 3}, "somebody tries again"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--partition", "gpu"], "--partition is for a cluster: --executor slurm or ray"),
        (["--retries", "-1"], "retries must be at least 0, not -1"),
        (["--executor", "slurm", "--workers", "0"], "workers must be a whole number of at least 1, not 0"),
        (["--executor", "ray", "--cpus", "0"], "cpus must be at least 1, not 0"),
        (["--executor", "ray", "--gpus", "-1"], "gpus must be at least 0, not -1"),
        (["--executor", "ray", "--memory", "nan"], "memory must be a number of gigabytes above 0, not nan"),
        (["--retries", "99999999999"], "retries must be at most 1,000, not 99999999999"),
        (["--workers", "99999999"], "workers must be a whole number of at most 10,000, not 99999999"),
        (
            ["--sync-to", "runs/copies"],
            "--sync-to is for copies, and needs another folder than --out, runs, outside it",
        ),
        (["--sync-to", "."], "--sync-to is for copies, and needs another folder than --out, runs, outside it"),
        (["--compile"], "native kernels train these networks, on the CPU: leave out --device and --compile"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(adalin, arguments, message):
    code, _, err = adalin(*RUN, *arguments)
    assert (code, err) == (2, f"adalin: {message}\n")


@pytest.mark.parametrize(("executor", "module"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_missing_extra_is_told_in_one_line(adalin, monkeypatch, executor, module):
    monkeypatch.setitem(sys.modules, module, None)
    code, _, err = adalin(*RUN, "--executor", executor)
    assert code == 2
    assert err.startswith(f"adalin: --executor {executor} needs ")
    assert err.endswith(f": pip install 'adalin[{executor}]'\n")
