"""A small study for every executor, what it reports, and what its rows must be."""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adalin.executors import Local, Work
from adalin.training import AnyRun, define_runs

Rows = dict[str, bytes]


def rows_of(out: Path) -> Rows:
    return {str(path.parent.relative_to(out)): path.read_bytes() for path in out.rglob("rows.jsonl")}


def make_work(out: Path, tasks: int = 2, **options: Any) -> Work:
    settings = {"tasks": tasks, "epochs": 2, "images": 64}
    runs, _ = define_runs("random-label-mnist", ["baseline", "adalin"], [3, 4], data="bundled", **settings)
    return Work(**{"runs": runs, "out": out, "data": "bundled", "workers": 2, "checkpoint_seconds": 0.0, **options})


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


class Notes:
    """The events of training, as a report takes them; may act once, when the first row is there."""

    def __init__(self, at_first_row: Callable[[], object] = lambda: None) -> None:
        self.events: list[tuple[str, AnyRun, dict[str, Any]]] = []
        self._at_first_row = at_first_row

    def __call__(self, event: str, run: AnyRun, details: dict[str, Any]) -> None:
        is_first = event == "row" and not self.of("row")
        self.events.append((event, run, details))
        if is_first:
            self._at_first_row()

    def of(self, *names: str) -> list[tuple[AnyRun, dict[str, Any]]]:
        return [(run, details) for event, run, details in self.events if event in names]

    def messages(self, event: str) -> list[str]:
        return [details["message"] for _, details in self.of(event)]


def assert_finished_once(notes: Notes, work: Work) -> None:
    """Every run and every row was reported once, and all rows are the local executor's to the byte."""
    assert notes.messages("error") == []
    assert len(notes.of("done")) == len(work.runs)
    assert {run for run, _ in notes.of("done")} == set(work.runs)
    rows = [(run, details["task"]) for run, details in notes.of("row")]
    assert len(rows) == len(set(rows)) == sum(run.tasks for run in work.runs)
    assert rows_of(work.out) == local_rows(work.runs[0].tasks)
