"""A real Slurm: jobs are killed, preempted, requeued and cancelled, and every run still finishes once."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import slurm_cluster
from adalin.executors import Slurm, StatusReader
from adalin.executors import _slurm as _slurm_engine
from adalin.executors._submission import Submission
from executor_runs import (
    assert_finished_once,
    local_rows,
    make_work,
    poison,
    rows_of,
    slow_down,
    wait_for_starts,
)
from notes import Notes
from tiny_runs import tiny_budget

pytestmark = [
    pytest.mark.skipif(slurm_cluster.MISSING is not None, reason=f"Slurm is not installed: no {slurm_cluster.MISSING}"),
    pytest.mark.skipif(find_spec("submitit") is None, reason="needs the slurm extra"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd must be started by root"),
]


@pytest.fixture(scope="module", autouse=True)
def _slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with slurm_cluster.slurm_cluster(tmp_path_factory.mktemp("slurm")):
        yield


def engine(**options: object) -> Slurm:
    return Slurm(**{"partition": "low", "backoff": 0.1, "poll_seconds": 0.5, **options})


def command(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def jobs_of(out: Path) -> list[str]:
    return [job["id"] for submission in Submission.read_all(out) for job in submission.jobs.values()]


def preempt(out: Path) -> None:
    command("sbatch", "--partition=high", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")


def requeue(out: Path) -> None:
    command("scontrol", "requeue", ",".join(jobs_of(out)))


def announce_the_end(out: Path) -> None:
    """As before a job's time limit."""
    command("scancel", "--signal=USR2", *jobs_of(out))


@pytest.mark.parametrize("disturbance", [preempt, requeue, announce_the_end])
def test_jobs_that_lose_their_place_save_and_go_on_in_the_next(disturbance, tmp_path):
    work = make_work(tmp_path, tasks=4, plugins=["disturbances"])
    slow_down(tmp_path, 0.8)

    def disturb() -> None:
        wait_for_starts(tmp_path, 2)
        disturbance(tmp_path)

    notes = Notes(at_first_row=disturb)
    assert not engine().train(work, notes)
    assert_finished_once(notes, work)
    assert len(jobs_of(tmp_path)) == 2  # the same jobs again, not others
    logs = [path.read_text() for path in tmp_path.glob(".jobs/*/job-*.log")]
    assert any("stopped and saved" in log and log.count(" pid ") > 1 for log in logs), logs


def test_a_job_that_dies_is_tried_again_and_a_run_that_always_dies_is_reported_with_its_log(tmp_path):
    work, notes = make_work(tmp_path, plugins=["disturbances"]), Notes()
    bad, unlucky = work.runs[0], work.runs[2]
    poison(tmp_path / bad.folder, deaths=99)
    poison(tmp_path / unlucky.folder, deaths=1)
    assert not engine(retries=1).train(work, notes)
    (message,) = notes.messages("error")
    assert message.startswith(f"{bad.folder} did not get further in 2 attempts: the last lines of {tmp_path}")
    assert "1 runs" in message
    assert "Killed" in message  # which srun says
    assert rows_of(tmp_path) == {name: rows for name, rows in local_rows().items() if name != str(bad.folder)}
    assert len(notes.of("done")) == 3
    assert StatusReader(tmp_path).read().counts["failed"] == 1


def test_a_signal_cancels_the_jobs_which_save_and_the_same_command_goes_on(tmp_path):
    work = make_work(tmp_path, tasks=4, plugins=["disturbances"])
    slow_down(tmp_path, 0.8)
    assert engine().train(work, Notes(at_first_row=lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert command("squeue", "--noheader") == ""
    first = rows_of(tmp_path)
    assert first != local_rows(4)
    assert StatusReader(tmp_path).read().counts["stopped"] == 4
    (tmp_path / "slow").unlink()
    assert not engine(cpus=2).train(work, Notes())
    assert rows_of(tmp_path) == local_rows(4)


def test_a_slurm_that_does_not_answer_is_asked_again(tmp_path, monkeypatch):
    ask, asked = _slurm_engine._command, []

    def ask_in_vain(*words):
        if words[0] == "squeue":
            asked.append(words)
            if len(asked) in (2, 3):
                raise ValueError("Slurm does not answer")
        return ask(*words)

    monkeypatch.setattr(_slurm_engine, "_command", ask_in_vain)
    work, notes = make_work(tmp_path), Notes()
    assert not engine().train(work, notes)
    assert_finished_once(notes, work)
    asked.clear()
    monkeypatch.setattr(_slurm_engine, "PATIENCE_SECONDS", -1.0)
    with pytest.raises(ValueError, match="Slurm does not answer"):
        engine().train(make_work(tmp_path, tasks=4), Notes())
    monkeypatch.undo()
    assert command("squeue", "--noheader") == ""  # nothing that would be in the way


def test_what_slurm_refuses_is_told_in_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"^Slurm refuses the jobs: .*Invalid partition name specified$"):
        engine(partition="nowhere").train(make_work(tmp_path), Notes())
    assert StatusReader(tmp_path).read().counts["stopped"] == 4


def test_jobs_of_a_command_that_was_killed_are_cancelled_by_the_next(tmp_path):
    work = make_work(tmp_path)
    lost = Submission.start(work, "slurm", 0)
    job = command("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=sleep 1").strip()
    lost.jobs["job-1"] = {"id": job, "runs": [str(work.runs[0].folder)], "log": str(tmp_path / "log")}
    lost.write()
    with engine().connect(work):
        assert command("squeue", "--noheader") != ""  # it may still live
    long_ago = time.time() - 1000
    os.utime(lost.folder / "submission.json", (long_ago, long_ago))
    with engine().connect(replace(work, runs=work.runs[1:])):
        assert command("squeue", "--noheader") != ""  # it is in nobody's way
    with engine().connect(work):
        assert command("squeue", "--noheader") == ""
    assert [submission.over for submission in Submission.read_all(tmp_path)] == [True]


SMALL = ("random-label-mnist", "--methods", "adalin", "--tasks", "1", "--epochs", "1", "--images", "48")
COMMANDS = {
    "run": ("run", *SMALL),
    "sweep": ("sweep", *SMALL, "--lr", "0.1", "0.01", "--batch-size", "16"),
    "reproduce": ("reproduce", "activations", "--seeds", "3"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_trains_on_slurm_what_it_trains_here(name, adalin, monkeypatch):
    tiny_budget(monkeypatch, tasks=1)
    words = (*COMMANDS[name], "--data", "bundled", "--out")
    code, out, err = adalin(
        *words, "cluster", "--executor", "slurm", "--partition", "low", "--memory", "1", "--time", "5"
    )
    assert (code, err) == (0, "")
    assert "task   1  adalin" in out
    adalin(*words, "here", "--workers", "1")
    assert rows_of(Path("cluster")) == rows_of(Path("here"))
    assert adalin("status", "cluster")[0] == 0


def test_machines_without_a_common_folder_for_runs_share_one_for_copies(tmp_path):
    work, notes = make_work(tmp_path / "own", sync_to=tmp_path / "shared"), Notes()
    assert not engine().train(work, notes)
    assert len(notes.of("done")) == 4
    assert rows_of(work.shared) == local_rows()


@pytest.mark.skipif(not os.environ.get("ADALIN_SLOW"), reason="Slurm's shortest time limit is a minute: make test-slow")
def test_a_job_that_reaches_its_time_limit_saves_and_goes_on_in_the_next(tmp_path):
    work, notes = make_work(tmp_path, tasks=4, plugins=["disturbances"]), Notes()
    slow_down(tmp_path, 8.0)  # a row: a job has eight, and is told to save after 40 s
    assert not engine(minutes=1, warn_seconds=20).train(work, notes)
    assert_finished_once(notes, work)
    logs = [path.read_text() for path in tmp_path.glob(".jobs/*/job-*.log")]
    assert all("stopped and saved" in log for log in logs), logs
