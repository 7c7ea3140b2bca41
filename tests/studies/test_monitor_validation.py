"""The validation of the monitor, at small scale."""

import json

import pytest
import torch

import adalin
from adalin.executors import define
from adalin.runs import RunFolder
from adalin.studies import _monitor, controls, snapshots_of, validation, validation_figure, validation_lines
from adalin.studies import write_validation as write
from adalin.studies._monitor import HELD_OUT_BENCHMARKS, HELD_OUT_METHODS, MonitorSnapshot, judge, verdict_counts

SHORT = {"tasks": 3, "epochs": 2, "images": 64}


def test_looks_and_probes_beside_the_rows_change_no_row_and_become_snapshots(tmp_path):
    methods = ["baseline", "adam"]
    watched = adalin.run("random-label-mnist", methods, [3], out=tmp_path / "a", data="bundled", monitor=True, **SHORT)
    plain = adalin.run("random-label-mnist", methods, [3], out=tmp_path / "b", data="bundled", **SHORT)
    assert [result.rows for result in watched] == [result.rows for result in plain]
    folder = RunFolder(tmp_path / "a" / watched[0].run.folder)
    assert sorted(folder.monitor_rows()) == [0, 1, 2]
    assert RunFolder(tmp_path / "b" / plain[0].run.folder).monitor_rows() == {}
    runs = define("random-label-mnist", methods, [3], data="bundled", **SHORT).runs
    snapshots = snapshots_of(tmp_path / "a", runs)
    assert [(s.method, s.task, s.held_out) for s in snapshots] == [
        *(("baseline", task, False) for task in (0, 1)),
        *(("adam", task, True) for task in (0, 1)),
    ]
    assert all(0.2 < s.numbers["probe"] < 3 and s.state in ("able", "unclear", "lost") for s in snapshots)
    found = validation(snapshots)
    write(found, tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["parts"]["held out"]["snapshots"] == 2
    assert any("AUC" in line for line in validation_lines(found))
    assert validation_figure(snapshots).axes


def test_controls_have_the_truth_beside_the_verdict():
    images = torch.rand(64, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    names = {"fresh": (False, _monitor._nothing), "dead": (False, _monitor._kill(1.0))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_monitor, "CONTROLS", names)
        fresh, dead = controls(images, seeds=[3], steps=200)
    assert fresh.state != "lost"
    assert (dead.state, dead.dead) == ("lost", 1.0)
    assert dead.relative < fresh.relative


def snapshot(state, relative, **numbers):
    values = dict.fromkeys(_monitor.PREDICTORS)
    return MonitorSnapshot("b", "m", 3, 0, False, values | numbers, state, relative)


def test_areas_correlations_and_counts_are_right():
    snapshots = [
        snapshot("lost", 0.1, probe=0.2, dead=0.9),
        snapshot("able", 0.5, probe=0.9, dead=0.5),
        snapshot("able", 0.9, probe=0.8, dead=0.5),
        snapshot("able", 1.0, probe=1.5, dead=0.0),
    ]
    found = {predictor.name: predictor for predictor in judge(snapshots)}
    assert found["probe"].auc == 3 / 4
    assert found["dead"].auc == (1 + 1 + 0.5 + 1) / 4
    assert found["probe"].rank_correlation == pytest.approx(0.8)
    assert found["norm"].auc is None
    assert found["norm"].count == 0
    assert verdict_counts(snapshots) == {"lost": {"lost": 1, "able": 1}, "not lost": {"able": 2}}


def test_what_is_held_out_has_no_part_in_choosing():
    assert not set(_monitor.VALIDATED_METHODS) & set(HELD_OUT_METHODS)
    assert not set(_monitor.VALIDATED_BENCHMARKS) & set(HELD_OUT_BENCHMARKS)


def test_monitoring_sac_is_refused_in_one_line():
    with pytest.raises(ValueError, match="monitor is for runs on streams of tasks, not for sac"):
        adalin.run("sac-Hopper-v4", ["baseline"], [3], monitor=True, steps=10_000)
