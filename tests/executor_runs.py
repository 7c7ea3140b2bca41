"""A small study for every executor, and what its rows must be."""

import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adalin.executors import Local, Work
from adalin.runs import Session, kind_of
from notes import Notes

Rows = dict[str, bytes]


def rows_of(out: Path) -> Rows:
    return {str(path.parent.relative_to(out)): path.read_bytes() for path in out.rglob("rows.jsonl")}


def make_work(
    out: Path, tasks: int = 2, *, data: str | None = "bundled", checkpoint_seconds: float = 0.0, **options: Any
) -> Work:
    settings = {"tasks": tasks, "epochs": 2, "images": 64}
    benchmark = "random-label-mnist"
    runs = kind_of(benchmark).define(benchmark, ["baseline", "adalin"], [3, 4], data="bundled", **settings).runs
    session = Session(out=out, data=data, checkpoint_seconds=checkpoint_seconds)
    return Work(**{"runs": runs, "session": session, "workers": 2, **options})


@cache
def local_rows(tasks: int = 2) -> Rows:
    """Of the study with so many tasks, trained in this process."""
    with TemporaryDirectory() as out:
        Local().train(make_work(Path(out), tasks, workers=1), Notes())
        return rows_of(Path(out))


def starts_of(out: Path) -> list[int]:
    """How often the process of each job has begun to train."""
    return [path.read_text().count(" pid ") for path in out.glob(".jobs/*/job-*.log")]


def wait_for_starts(out: Path, jobs: int) -> None:
    """Until so many jobs have begun: one that has not is not there to be disturbed."""
    deadline = time.monotonic() + 60
    while sum(map(bool, starts_of(out))) < jobs and time.monotonic() < deadline:
        time.sleep(0.1)


def slow_down(out: Path, seconds: float) -> None:
    """For runs with the plugin `disturbances`, as below."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "slow").write_text(str(seconds))


def poison(folder: Path, deaths: int) -> None:
    folder.mkdir(parents=True)
    (folder / "poison").write_text(str(deaths))


def assert_finished_once(notes: Notes, work: Work) -> None:
    """Every run and every row was reported once, and all rows are the local executor's to the byte."""
    assert notes.messages("error") == []
    assert len(notes.of("done")) == len(work.runs)
    assert set(notes.runs("done")) == set(work.runs)
    rows = [(event.run, event.task) for event in notes.of("row")]
    assert len(rows) == len(set(rows)) == sum(run.tasks for run in work.runs)
    assert rows_of(work.session.out) == local_rows(work.runs[0].tasks)
