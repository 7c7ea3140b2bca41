"""Optuna's search, shared by commands that come and go."""

import re
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from adalin.executors import define, execute
from adalin.runs import Comparison, Result, RunFolder, Session
from adalin.studies import Search

pytestmark = [pytest.mark.skipif(find_spec("optuna") is None, reason="needs the search extra")]

TINY = {"tasks": 1, "epochs": 1, "images": 48}
SWEEP = ("sweep", "random-label-mnist", "--tasks", "1", "--epochs", "1", "--images", "48", "--data", "bundled")
OPTUNA = ("--search", "optuna", "--workers", "1")


def make_search(out: Path, trials: int = 3, batches: Sequence[int] = (16, 32)) -> Search:
    lrs = (1e-3, 1e-1)
    return Search("random-label-mnist", ["adalin"], lrs, batches, out=out, trials=trials, data="bundled", **TINY)


def train(out: Path, search: Search, points):
    runs = search.runs_of(points)
    execute(runs, Session(out=out, data="bundled"))
    return [Result.open(RunFolder(out / run.folder), run) for run in runs]


def test_sweep_chooses_the_best_of_what_optuna_proposes_and_reports_it_on_other_seeds(adalin, monkeypatch):
    import optuna

    # Left to chance, two learning rates may be equal to the three digits that count.
    monkeypatch.setattr(optuna.samplers, "TPESampler", partial(optuna.samplers.TPESampler, seed=0))
    code, out, err = adalin(*SWEEP, "--methods", "adalin", *OPTUNA, "--trials", "3", "--lr", "0.1", "0.001")
    assert (code, err) == (0, "")
    assert out.count("1 points on seeds 0, 1, 2") == 3
    assert out.count(" chosen") >= 1
    assert "the chosen settings on seeds 3, 4, 5: 3 runs" in out
    rates = {float(rate) for rate in re.findall(r"adalin +(0\.\d+) +(?:16|32|64) ", out)}
    assert len(rates) == 3
    assert all(0.001 <= rate <= 0.1 for rate in rates)
    code, again, _ = adalin(*SWEEP, "--methods", "adalin", *OPTUNA, "--trials", "3", "--lr", "0.1", "0.001")
    assert code == 0
    assert "points on seeds" not in again
    assert again.count("everything was done before") == 2


def test_two_commands_share_the_trials_and_both_find_all_of_them(tmp_path):
    first, second = make_search(tmp_path), make_search(tmp_path)
    with first.joined(), second.joined():
        ours, theirs = first.ask(2), second.ask(2)
        assert len({point.number for point in (*ours, *theirs)}) == 3
        assert first.ask(1) == []
        for search, points in ((first, ours), (second, theirs)):
            assert not search.is_over
            search.tell(points, train(tmp_path, search, points))
        assert first.is_over
        assert {run.folder for run in first.complete()} == {run.folder for run in second.complete()}
        assert len(first.complete()) == 9


def test_points_of_a_command_that_was_killed_are_made_by_the_next(tmp_path):
    (lost,) = make_search(tmp_path, trials=1).ask(1)  # and nothing shows that it lives
    search = make_search(tmp_path, trials=1)
    with search.joined():
        (found,) = search.ask(1)
        assert (found.lr, found.batch_size) == (lost.lr, lost.batch_size)
        search.tell([found], train(tmp_path, search, [found]))
        assert search.is_over
        assert search.ask(1) == []


def test_points_of_a_command_that_is_stopped_are_put_back(tmp_path):
    first = make_search(tmp_path, trials=1)
    with first.joined():
        points = first.ask(1)
        first.put_back(points)
        assert not first.is_over
        (again,) = first.ask(1)
        assert again.lr == points[0].lr


def test_a_search_that_wants_fewer_trials_than_are_put_back_is_over(tmp_path):
    first = make_search(tmp_path, trials=2)
    with first.joined():
        made, left = first.ask(2)
        first.tell([made], train(tmp_path, first, [made]))
        first.put_back([left])
    search = make_search(tmp_path, trials=1)
    assert search.ask(1) == []
    assert search.is_over


def test_other_batch_sizes_are_another_search_and_wrong_ones_leave_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="batch-size must be"):
        make_search(tmp_path, batches=(0, 16))
    for batches in ((16,), (16, 64), (64, 16)):
        search = make_search(tmp_path, trials=1, batches=batches)
        with search.joined():
            points = search.ask(1)
            search.put_back(points)
            assert {point.batch_size for point in points} <= set(batches)


def test_a_point_that_another_command_works_on_is_not_taken_twice(tmp_path):
    first, second = make_search(tmp_path), make_search(tmp_path)
    with first.joined(), second.joined():
        (point,) = first.ask(1)
        second.put_back([point])  # and is asked for again, though its runs are being trained
        (again,) = first.ask(1)
        assert (again.lr, again.batch_size) == (point.lr, point.batch_size)
        study = next(iter(second._studies.values()))
        study.enqueue_trial({"lr": point.lr, "batch_size": point.batch_size})
        assert second.ask(1) == []


def test_a_point_whose_runs_fail_counts_as_a_trial_without_a_score(tmp_path):
    search = make_search(tmp_path, trials=1)
    with search.joined():
        search.tell(search.ask(1), [])
        assert search.is_over
        assert search.complete() == []


def test_what_is_missing_or_wrong_is_told_in_one_line(adalin, monkeypatch):
    assert adalin(*SWEEP, *OPTUNA, "--trials", "0")[2] == "adalin: trials must be at least 1, not 0\n"
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = adalin(*SWEEP, *OPTUNA)
    assert (code, err) == (2, "adalin: --search optuna needs Optuna: pip install 'adalin[search]'\n")


def test_other_data_are_another_search(tmp_path, monkeypatch):
    first = make_search(tmp_path, trials=1)
    with first.joined():
        assert len(first.ask(1)) == 1
        assert make_search(tmp_path, trials=1).ask(1) == []
        monkeypatch.setattr("adalin.studies._search.define", on_other_data)
        assert len(make_search(tmp_path, trials=1).ask(1)) == 1


def on_other_data(*args, **settings):
    found = define(*args, **settings)
    return Comparison([run.with_settings(data="0" * 64) for run in found.runs], found.dataset)
