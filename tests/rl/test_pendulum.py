"""SAC learns: Pendulum-v1 is solved within 20,000 steps."""

import os
from pathlib import Path

import pytest

from adalin.executors import execute
from adalin.runs import RunFolder, Session
from notes import Notes
from rl.tiny_sac import define_all

pytest.importorskip("gymnasium", reason="the rl extra is not installed")

pytestmark = [
    pytest.mark.skipif(not os.environ.get("ADALIN_SLOW"), reason="takes minutes: make test-slow"),
    pytest.mark.timeout(3_600),
]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pendulum_swings_up_and_stays_there(seed: int, tmp_path: Path) -> None:
    settings = {"steps": 20_000, "period": 5_000, "learning_starts": 1_000}
    (run,) = define_all("Pendulum-v1", ["adalin"], [seed], **settings)
    notes = Notes()
    execute([run], Session(out=tmp_path, emit=notes))
    assert notes.messages("warning") == notes.messages("error") == []
    rows = RunFolder(tmp_path / run.folder).rows()
    assert [row["env_step"] for row in rows] == [5_000, 10_000, 15_000, 20_000]
    assert [row["episodes"] for row in rows] == [25] * 4
    assert max(row["eval_return"] for row in rows) > -300
    assert rows[-1]["episode_return"] > -300
    assert rows[-1]["episode_return"] > rows[0]["episode_return"] + 100
