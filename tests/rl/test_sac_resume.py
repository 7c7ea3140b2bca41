"""A run of SAC that was stopped, by whatever, goes on to the same end; and the comparison would notice otherwise."""

import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adalin.rl import _train
from adalin.training import RunFolder, _checkpoint, execute
from adalin.training._run_folder import Checkpoint
from rl.tiny_sac import after_chunks, define, events_of, sac_outcome, train

gymnasium = pytest.importorskip("gymnasium", reason="the rl extra is not installed")
pytest.importorskip("mujoco", reason="the rl extra is not installed")

pytestmark = pytest.mark.usefixtures("_no_waiting_for_the_disk")
small = pytest.mark.usefixtures("_small")

MUJOCO = ["Hopper-v4", "HalfCheetah-v4", "Ant-v4"]


class CrashError(Exception):
    """What a process does not survive."""


def then_crash(stop: Callable[[], bool]) -> Callable[[], bool]:
    def crash() -> bool:
        if stop():
            raise CrashError
        return False

    return crash


# stopped


@pytest.mark.parametrize(("replay_ratio", "starts"), [(1, 60), (4, 85)])
@pytest.mark.parametrize("env", MUJOCO)
def test_stops_at_random_moments_change_nothing(
    env: str, replay_ratio: int, starts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_train, "CHUNK", 7)
    run = define(env, steps=120, period=60, learning_starts=starts, batch_size=16, replay_ratio=replay_ratio)
    expected = train(run, tmp_path / "whole", checkpoint_seconds=math.inf)
    assert expected["position"]["state"] == "done"
    assert expected["position"]["updates"] == (120 - starts) * replay_ratio
    rng, moments, found = random.Random(f"{env} {replay_ratio}"), [], {"position": {"state": "new"}}
    while found["position"]["state"] != "done":
        count, seconds, crashes = rng.randint(1, 8), rng.choice((-1.0, math.inf)), rng.random() < 0.3
        moments.append((count, seconds, crashes))
        stop = then_crash(after_chunks(count)) if crashes else after_chunks(count)
        try:
            found = train(run, tmp_path / "stopped", stop=stop, checkpoint_seconds=seconds)
        except CrashError:
            continue
    assert len(moments) > 3
    assert found == expected, moments
    rows = [(tmp_path / name / run.folder / "rows.jsonl").read_bytes() for name in ("whole", "stopped")]
    assert rows[0] == rows[1]
    assert rows[0].count(b"\n") == 2


@small
@pytest.mark.parametrize("env", ["Hopper-v4", "Pendulum-v1"])
def test_a_stop_after_any_chunk_changes_nothing(env: str, tmp_path: Path) -> None:
    run = define(env)
    expected = train(run, tmp_path / "whole")
    for count in range(1, 6):
        stopped = train(run, tmp_path / str(count), stop=after_chunks(count))["position"]
        assert (stopped["task"], stopped["step"], stopped["state"]) == (count // 2, count % 2 * 10, "stopped")
        assert train(run, tmp_path / str(count)) == expected, count


@small
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("crelu", {}),
        ("adalin-tanh:granularity=network", {"layer_norm": True}),
        ("fourier", {"policy_frequency": 3, "replay_ratio": 2}),
        ("adalin", {"period": 15, "policy_frequency": 1}),
        ("adalin", {"buffer_size": 25}),
        ("adalin", {"buffer_size": 7}),
        ("adalin", {"learning_starts": 0}),
        ("adalin", {"learning_starts": 1_000}),
    ],
)
def test_a_stop_after_every_chunk_changes_nothing(method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    run = define("Hopper-v4", method, **settings)
    for _ in range(2 * run.tasks):
        train(run, tmp_path / "stopped", stop=after_chunks(1))
    assert sac_outcome(run, tmp_path / "stopped") == train(run, tmp_path / "whole")


@small
def test_more_steps_later_are_the_same_as_from_the_start(tmp_path: Path) -> None:
    short, long = define("Hopper-v4", steps=20), define("Hopper-v4", steps=60)
    assert short.folder == long.folder
    assert train(short, tmp_path / "extended")["position"]["state"] == "done"
    assert train(long, tmp_path / "extended") == train(long, tmp_path / "whole")


@small
def test_a_buffer_of_any_size_takes_no_more_memory_than_there_are_steps(tmp_path: Path) -> None:
    runs = [define("Hopper-v4", buffer_size=size) for size in (60, 10**15)]
    exact, huge = (train(run, tmp_path) for run in runs)
    assert exact == huge


@small
def test_fewer_steps_later_change_nothing(tmp_path: Path) -> None:
    long, short = define("Hopper-v4", steps=40), define("Hopper-v4", steps=20)
    before = train(long, tmp_path)
    events = events_of(short, tmp_path)
    assert [event for event, _ in events] == ["resumed", "done"]
    assert sac_outcome(long, tmp_path) == before


@small
def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    run = define("Hopper-v4", steps=40)
    before = train(run, tmp_path)
    first, last = events_of(run, tmp_path)
    assert first == ("resumed", {"steps": 40})
    assert last[0] == "done"
    assert sac_outcome(run, tmp_path) == before


@small
def test_steps_are_told_of_as_they_are_made(tmp_path: Path) -> None:
    run = define("Hopper-v4", steps=44, period=22, replay_ratio=2)
    events = events_of(run, tmp_path, stop=after_chunks(4))
    assert [event for event, _ in events] == ["resumed", "steps", "steps", "steps", "row", "steps", "stopped"]
    assert [details["steps"] for event, details in events if event == "steps"] == [20, 20, 4, 20]
    events = events_of(run, tmp_path)
    assert events[0] == ("resumed", {"steps": 64})
    assert sum(details["steps"] for event, details in events if event in ("resumed", "steps")) == run.total_steps == 88


@small
def test_executed_runs_end_with_the_same_bits(tmp_path: Path) -> None:
    runs = [define("Hopper-v4", method, seed) for method, seed in (("adalin", 0), ("adalin", 1), ("baseline", 0))]
    events: list[str] = []
    assert not execute(runs, out=tmp_path / "out", workers=1, report=lambda event, *_: events.append(event))
    assert events.count("done") == 3
    assert "error" not in events
    found = [sac_outcome(run, tmp_path / "out") for run in runs]
    assert found == [train(run, tmp_path / "alone") for run in runs]
    assert len({str(one["row 2"]) for one in found}) == 3


# The comparison has teeth: what a checkpoint holds is needed, all of it.


@small
def test_a_resume_without_any_one_piece_of_the_state_is_noticed(tmp_path: Path) -> None:
    run = define("Reacher-v4", steps=40)
    expected = train(run, tmp_path / "whole")
    train(run, tmp_path / "stopped", stop=after_chunks(3))
    checkpoint = RunFolder(tmp_path / "stopped" / run.folder).load(pytest.fail)
    assert checkpoint is not None
    tensors, position = checkpoint.tensors, checkpoint.position
    assert (position["task"], position["step"]) == (1, 10)

    def resumed(name: str, altered: Checkpoint) -> dict[str, Any]:
        shutil.copytree(tmp_path / "stopped", tmp_path / name)
        _checkpoint.save(tmp_path / name / run.folder, altered)
        return train(run, tmp_path / name)

    assert resumed("nothing", checkpoint) == expected
    # Reacher's rewards are of the bodies' frames, not of their centres.
    for name, tensor in ((name, tensor) for name, tensor in tensors.items() if name != "simulator.xipos"):
        value = torch.Generator().manual_seed(0).get_state() if name == "generator" else torch.zeros_like(tensor)
        assert resumed(f"another {name}", Checkpoint({**tensors, name: value}, position)) != expected, name
        with pytest.raises(KeyError):
            resumed(f"no {name}", Checkpoint({other: tensors[other] for other in tensors if other != name}, position))
    period, environment = position["period"], position["environment"]
    changes: list[dict[str, Any]] = [
        {"step": 0},
        {"updates": position["updates"] + 1},
        {"period": {**period, "looks": {name: count + 1 for name, count in period["looks"].items()}}},
        {"period": {**period, "returns": [1.0], "lengths": [1]}},
        *({"environment": {**environment, name: environment[name] + 1}} for name in environment if name != "episode"),
    ]
    for number, change in enumerate(changes):
        assert resumed(f"change {number}", Checkpoint(tensors, position | change)) != expected, change


@small
def test_a_resume_with_another_replay_buffer_is_noticed(tmp_path: Path) -> None:
    run = define("Hopper-v4", steps=40)
    expected = train(run, tmp_path / "whole")
    train(run, tmp_path / "stopped", stop=after_chunks(3))
    (other,) = (tmp_path / "stopped" / run.folder).glob("replay-*")
    shutil.copytree(tmp_path / "stopped", tmp_path / "other")
    buffer = _train.ReplayBuffer(run.buffer_size, 11, 3)
    buffer.load(other.parent, 30)
    buffer._rows[:30, 0] += 0.1
    (tmp_path / "other" / run.folder / other.name).unlink()
    buffer.save(tmp_path / "other" / run.folder, keep_from=0)
    assert train(run, tmp_path / "other") != expected
    assert train(run, tmp_path / "stopped") == expected


# crashes


@small
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_a_crash_before_the_first_checkpoint_changes_nothing(
    chunks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transitions were written, the checkpoint that counts on them was not; the next one comes earlier, or later."""
    run = define("Hopper-v4", steps=40)

    def crash(*_: object) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint, "save", crash)
        with pytest.raises(CrashError):
            train(run, tmp_path / "out", stop=after_chunks(2))
    assert list((tmp_path / "out" / run.folder).glob("replay-*"))
    train(run, tmp_path / "out", stop=after_chunks(chunks))
    assert train(run, tmp_path / "out") == train(run, tmp_path / "whole")


@small
@pytest.mark.parametrize("settings", [{}, {"buffer_size": 14}])
def test_a_damaged_checkpoint_costs_the_way_from_the_one_before(settings: dict[str, Any], tmp_path: Path) -> None:
    run = define("Hopper-v4", **settings)
    train(run, tmp_path / "out", stop=after_chunks(4), checkpoint_seconds=-1)
    *_, newest = sorted((tmp_path / "out" / run.folder).glob("checkpoint-*"))
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    events = events_of(run, tmp_path / "out")
    (warning,) = [details["message"] for event, details in events if event == "warning"]
    assert str(newest) in warning
    assert "trying the checkpoint before it" in warning
    assert [event for event, _ in events].count("steps") == 3, "the chunk before the stop, and the two after it"
    assert sac_outcome(run, tmp_path / "out") == train(run, tmp_path / "whole")


@small
def test_rows_that_are_missing_before_a_checkpoint_are_noticed(tmp_path: Path) -> None:
    run = define("Hopper-v4")
    before = train(run, tmp_path, stop=after_chunks(5))
    rows = tmp_path / run.folder / "rows.jsonl"
    rows.write_bytes(rows.read_bytes().splitlines(keepends=True)[0])
    assert events_of(run, tmp_path) == [
        (
            "error",
            {
                "message": f"{tmp_path / run.folder} has 1 rows, but its checkpoint comes after 2 tasks; "
                "restore rows.jsonl or delete the folder to start the run anew"
            },
        )
    ]
    assert sac_outcome(run, tmp_path)["position"] == before["position"]


@small
def test_rows_without_a_checkpoint_are_made_again(tmp_path: Path) -> None:
    run = define("Hopper-v4")
    train(run, tmp_path / "out", stop=after_chunks(5))
    for path in (tmp_path / "out" / run.folder).glob("checkpoint-*"):
        path.unlink()
    warning, *events = events_of(run, tmp_path / "out", stop=after_chunks(1))
    assert warning[0] == "warning"
    assert warning[1]["message"].startswith(f"{tmp_path / 'out' / run.folder} has 2 rows but no checkpoint")
    assert events[0] == ("resumed", {"steps": 0})
    assert train(run, tmp_path / "out") == train(run, tmp_path / "whole")


@small
@pytest.mark.parametrize("damage", ["damaged", "missing"])
def test_transitions_that_are_lost_are_told_of_in_one_line(damage: str, tmp_path: Path) -> None:
    run = define("Hopper-v4")
    train(run, tmp_path, stop=after_chunks(3), checkpoint_seconds=-1)
    first, *_ = sorted((tmp_path / run.folder).glob("replay-*"))
    if damage == "missing":
        first.unlink()
    else:
        first.write_bytes(first.read_bytes()[:-1])
    events: list[tuple[str, dict[str, Any]]] = []
    execute([run], out=tmp_path, report=lambda event, run, details: events.append((event, details)))
    (message,) = [details["message"] for event, details in events if event == "error"]
    assert str(first if damage == "damaged" else first.parent) in message
    assert message.endswith("or delete the folder to start the run anew")
    assert "\n" not in message


@small
def test_an_episode_that_is_longer_than_the_buffer_goes_on_to_the_same_end(tmp_path: Path) -> None:
    run = define("Pendulum-v1", buffer_size=15)
    train(run, tmp_path / "stopped", stop=after_chunks(3))
    assert train(run, tmp_path / "stopped") == train(run, tmp_path / "whole")


@small
def test_a_stop_while_the_actor_rests_changes_nothing(tmp_path: Path) -> None:
    run = define("Pendulum-v1", policy_frequency=25)
    train(run, tmp_path / "stopped", stop=after_chunks(4))
    assert train(run, tmp_path / "stopped") == train(run, tmp_path / "whole")


class Ramp(gymnasium.Env[Any, Any]):
    """A user's own, in double precision, with actions between -2 and 1."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Box(-2, 1, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = self.np_random.random(3)
        return self.x.copy(), {}

    def step(self, action: Any) -> Any:
        self.x = self.x + 0.1 * action.sum()
        return self.x.copy(), float(-np.abs(self.x).sum()), bool(self.x[0] > 3), False, {}


@small
def test_an_environment_of_ones_own_goes_on_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Ramp-v0", Ramp, max_episode_steps=17)
    run = define("Ramp-v0")
    for _ in range(6):
        train(run, tmp_path / "stopped", stop=after_chunks(1))
    expected = train(run, tmp_path / "whole")
    assert expected["position"]["state"] == "done"
    assert sac_outcome(run, tmp_path / "stopped") == expected
