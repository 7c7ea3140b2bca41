"""Processes on this machine that die, and what runs are expected to cost."""

from pathlib import Path

from adalin.executors import Local, StatusReader
from adalin.executors._costs import expected_costs
from adalin.executors._executor import Attempts
from adalin.runs import RunFolder
from executor_runs import assert_finished_once, local_rows, make_work, poison, rows_of
from notes import Notes
from tiny_runs import define


def test_a_run_whose_process_dies_is_tried_again_with_the_same_rows(tmp_path: Path) -> None:
    work, notes = make_work(tmp_path, plugins=["disturbances"]), Notes()
    poison(tmp_path / work.runs[0].folder, deaths=1)
    assert not Local(backoff=0.0).train(work, notes)
    assert "its process died (exit code -9); it is tried again" in notes.messages("warning")[0]
    assert_finished_once(notes, work)
    assert not (tmp_path / ".jobs").exists()


def test_a_run_that_always_dies_is_reported_and_does_not_take_others_along(tmp_path: Path) -> None:
    work, notes = make_work(tmp_path, plugins=["disturbances"]), Notes()
    bad = work.runs[0]
    poison(tmp_path / bad.folder, deaths=99)
    assert not Local(retries=1, backoff=0.0).train(work, notes)
    assert notes.runs("error") == [bad]
    expected = {name: rows for name, rows in local_rows().items() if name != str(bad.folder)}
    assert rows_of(tmp_path) == expected
    status = StatusReader(tmp_path).read()
    assert {one.run: (one.state, one.message) for one in status.runs}[bad] == ("failed", *notes.messages("error"))
    assert status.counts == {"done": 3, "running": 0, "waiting": 0, "stopped": 0, "failed": 1, "diverged": 0}


def test_an_error_in_one_run_does_not_take_others_along(tmp_path: Path) -> None:
    work, notes = make_work(tmp_path, plugins=["disturbances"]), Notes()
    bad = tmp_path / work.runs[0].folder / "bug"
    bad.parent.mkdir(parents=True)
    bad.touch()
    assert not Local(retries=1, backoff=0.0).train(work, notes)
    assert notes.runs("error") == [work.runs[0]]
    assert "a bug in one run" in notes.messages("error")[0]
    assert len(notes.of("done")) == 3


def test_attempts_are_counted_from_the_last_progress_with_longer_and_longer_pauses() -> None:
    attempts, run = Attempts(retries=2, backoff=5.0), define("random-label-mnist", "adalin")
    counts = [attempts.fail(run, steps) for steps in (0, 0, 7, 7, 3, 8)]
    assert counts == [1, 2, 1, 2, 3, 1]
    assert [attempts.over(count) for count in (1, 2, 3)] == [False, False, True]
    assert [attempts.pause(count) for count in (1, 2, 3)] == [5.0, 10.0, 20.0]


def test_costs_come_from_what_like_runs_have_taken_for_what_they_have_left(tmp_path: Path) -> None:
    work = make_work(tmp_path, workers=1)
    Local().train(work, Notes())
    for run in work.runs:
        seconds = {"baseline": 10.0, "adalin": 20.0}[run.method]
        (tmp_path / run.folder / "cost.json").unlink()
        RunFolder(tmp_path / run.folder).add_cost(seconds)
    longer = make_work(tmp_path, tasks=4).runs
    new = define("permuted-mnist", "adalin")
    costs = expected_costs(tmp_path, [*longer, new])
    assert {round(costs[run], 6) for run in longer if run.method == "adalin"} == {20.0}
    assert {round(costs[run], 6) for run in longer if run.method == "baseline"} == {10.0}
    assert costs[new] == new.total_steps * 60 / sum(run.steps_of(2) for run in longer)


def test_a_run_imported_with_fewer_tasks_costs_all_its_steps(tmp_path: Path) -> None:
    whole, longer = define("permuted-mnist", "adalin", tasks=2), define("permuted-mnist", "adalin", tasks=4)
    rows = [{"task": task, "online_accuracy": 0.5} for task in range(2)]
    manifest, position = {"tasks": 2}, {"task": 2, "step": 0, "state": "done"}
    RunFolder(tmp_path / whole.folder).record(dict(whole.config), manifest, rows, position, core_seconds=10.0)
    assert expected_costs(tmp_path, [whole]) == {whole: 0.0}
    assert expected_costs(tmp_path, [longer]) == {longer: longer.total_steps}
