"""A run of SAC whose actions are not finite ends there, and is left alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adalin.rl._sac import SAC
from rl.tiny_sac import define, notes_of, sac_outcome, train

pytest.importorskip("mujoco", reason="the rl extra is not installed")

pytestmark = pytest.mark.usefixtures("_small", "_no_waiting_for_the_disk")


def test_a_run_whose_actions_are_not_finite_is_kept_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, more = define("Hopper-v4"), define("Hopper-v4", steps=100)
    act, made = SAC.act, 0

    def act_badly(self: SAC, observation: Any, *, deterministic: bool = False) -> Any:
        nonlocal made
        made += not deterministic
        action = act(self, observation, deterministic=deterministic)
        return action * np.nan if made == 20 else action

    with monkeypatch.context() as patch:
        patch.setattr(SAC, "act", act_badly)
        notes = notes_of(run, tmp_path)
    assert notes.names[-1] == "diverged"
    result = sac_outcome(run, tmp_path)
    position = result["position"]
    assert (position["task"], position["step"], position["state"]) == (1, 11, "diverged")
    assert position["transitions"] == 31
    assert "row 1" not in result
    for again in (run, more):
        assert notes_of(again, tmp_path).names == ["resumed", "diverged"]
        assert sac_outcome(again, tmp_path) == result
    for path in (tmp_path / run.folder).glob("checkpoint-*"):
        path.unlink()
    assert train(run, tmp_path)["position"]["state"] == "done"


def test_an_agent_that_has_diverged_is_evaluated_without_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, act = define("Hopper-v4"), SAC.act

    def act_badly(self: SAC, observation: Any, *, deterministic: bool = False) -> Any:
        return act(self, observation, deterministic=deterministic) * (np.nan if deterministic else 1)

    monkeypatch.setattr(SAC, "act", act_badly)
    monkeypatch.chdir(tmp_path)  # where MuJoCo would complain
    rows = notes_of(run, tmp_path).of("row")
    assert np.isnan([row.values["eval_return"] for row in rows]).all()
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_a_learning_rate_that_is_far_too_large_diverges(tmp_path: Path) -> None:
    run = define("Pendulum-v1", policy_lr=1e38, q_lr=1e38)
    assert train(run, tmp_path)["position"]["state"] == "diverged"
