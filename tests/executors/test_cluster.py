"""What Slurm and Ray have in common, with an engine that has no machines."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from adalin.executors import Cluster, Job, StatusReader, Work, train_job
from adalin.executors._submission import Submission
from adalin.runs import RunFolder, RunFolderError
from executor_runs import assert_finished_once, local_rows, make_work, rows_of
from notes import Notes


@dataclass(eq=False, kw_only=True)
class AtOnce(Cluster):
    """Jobs are over when they are submitted."""

    name: ClassVar[str] = "at-once"
    capacity: ClassVar[int] = 2
    backoff: float = 0.0
    poll_seconds: float = 0.0
    train_one: Callable[[Path], Any] = train_job
    submitted: list[Job] = field(default_factory=list)
    cancelled: list[Job] = field(default_factory=list)

    @contextmanager
    def connect(self, work: Work) -> Iterator[None]:
        yield

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        self.submitted += jobs
        for job in jobs:
            self.train_one(job.path)
        return [job.name for job in jobs]

    def ended(self, jobs: Sequence[Job]) -> list[Job]:
        return list(jobs)

    def final_output(self, job: Job) -> str:
        return ""

    def cancel(self, jobs: Sequence[Job]) -> None:
        self.cancelled += jobs


def test_a_finished_run_whose_last_checkpoint_is_damaged_is_trained_again_from_the_one_before(tmp_path: Path) -> None:
    work = make_work(tmp_path)
    AtOnce().train(work, Notes())
    bad = work.runs[0]
    *_, last = sorted((tmp_path / bad.folder).glob("checkpoint-*"))
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    assert StatusReader(tmp_path).read().counts["done"] == 3
    engine, notes, damage = AtOnce(), Notes(), list[str]()
    assert not engine.train(work, notes)
    assert [run for job in engine.submitted for run in job.runs] == [bad]
    assert len(notes.of("done")) == 4
    checkpoint = RunFolder(tmp_path / bad.folder).load(damage.append)
    assert checkpoint is not None
    assert (checkpoint.position["state"], damage) == ("done", [])
    assert rows_of(tmp_path) == local_rows()


def test_half_a_line_about_an_error_does_not_end_the_others_and_its_run_is_tried_again(tmp_path: Path) -> None:
    work, notes, torn = make_work(tmp_path), Notes(), list[Path]()

    def die_once(path: Path) -> None:
        if torn:
            train_job(path)
        else:
            torn.append(path.with_suffix(".errors"))
            torn[0].write_text('{"run": "random-la')

    engine = AtOnce(train_one=die_once)
    assert not engine.train(work, notes)
    assert "job job-1 ended before 2 of its runs did" in notes.messages("warning")[0]
    assert_finished_once(notes, work)
    assert engine.cancelled == []


def test_jobs_that_cannot_be_written_down_are_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Submission.write

    def refuse_jobs(self: Submission) -> None:
        if self.jobs:
            raise RunFolderError("the disk is full")
        write(self)

    monkeypatch.setattr(Submission, "write", refuse_jobs)
    engine = AtOnce(train_one=lambda path: None)
    with pytest.raises(RunFolderError, match="the disk is full"):
        engine.train(make_work(tmp_path), Notes())
    assert engine.submitted
    assert engine.cancelled == engine.submitted


@pytest.mark.parametrize("given", [True, False])
def test_a_job_finds_data_below_the_home_folder(given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("ADALIN_DATA", "~/elsewhere" if given else "~/data")
    work = make_work(tmp_path, data="~/data" if given else None)
    job = Job(tmp_path / "job-1.json", work.runs)
    job.write(work, 1)
    assert json.loads(job.path.read_bytes())["data"] == "/home/somebody/data"
