"""What a trial tells of a run's cost: on a clock that ticks once for each update, an update takes one tick."""

import pytest

from adalin.rl import _loop
from adalin.rl._sac import SAC, Batch
from rl.tiny_sac import define

pytest.importorskip("gymnasium", reason="the rl extra is not installed")


@pytest.mark.usefixtures("_small", "_no_waiting_for_the_disk")
@pytest.mark.parametrize("replay_ratio", [1, 3])
@pytest.mark.parametrize("batch_size", [8, 10, 16, 33])
def test_the_cost_of_an_update_is_that_of_one_update(
    batch_size: int, replay_ratio: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, made = SAC.update, 0

    def counted(self: SAC, batch: Batch) -> None:
        nonlocal made
        made += 1
        update(self, batch)

    monkeypatch.setattr(SAC, "update", counted)
    monkeypatch.setattr(_loop.time, "perf_counter", lambda: float(made))
    trial = _loop.try_agent(define("Pendulum-v1", batch_size=batch_size, replay_ratio=replay_ratio))
    assert made > 0
    assert trial.seconds_per_step == 1.0
    assert trial.seconds_per_task == 0.0
    assert trial.row_bytes > 100
    assert trial.checkpoint_bytes > 10_000
    assert trial.buffer_bytes == 60 * 4 * (3 + 1 + 1 + 1 + 3)
