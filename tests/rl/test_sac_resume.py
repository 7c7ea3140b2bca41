"""A run of SAC that was stopped, by whatever, goes on to the same end; and the comparison would notice otherwise."""

import json
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adalin.executors import execute
from adalin.rl import SACRun, _loop
from adalin.rl._replay import ReplayBuffer
from adalin.runs import Checkpoint, RunFolder, Session
from notes import Notes
from rl.tiny_sac import after_chunks, define, notes_of, sac_outcome, train

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
    monkeypatch.setattr(_loop, "CHUNK", 7)
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


@pytest.mark.parametrize("policy_frequency", [2, 7])
def test_a_stop_within_the_updates_of_a_step_changes_nothing(
    policy_frequency: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_loop, "UPDATES", 3)
    settings: dict[str, Any] = {"replay_ratio": 20, "policy_frequency": policy_frequency, "batch_size": 8}
    run = define("Pendulum-v1", steps=12, period=6, learning_starts=8, **settings)
    expected = train(run, tmp_path / "whole")
    found: dict[str, Any] = {"position": {"state": "new"}}
    within = set()
    while found["position"]["state"] != "done":
        found = train(run, tmp_path / "stopped", stop=after_chunks(2))
        within.add(found["position"]["updates_in_step"])
    assert found == expected
    assert len(within) > 2, "it stopped within steps"
    assert max(within) <= 20 - policy_frequency


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
        ("adalin", {"period": 15}),
        ("adalin", {"buffer_size": 25}),
        ("adalin", {"buffer_size": 7}),
        ("adalin", {"learning_starts": 0}),
        ("adalin", {"learning_starts": 59}),
    ],
)
def test_a_stop_after_every_chunk_changes_nothing(method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    run = define("Hopper-v4", method, **settings)
    for _ in range(2 * run.tasks):
        train(run, tmp_path / "stopped", stop=after_chunks(1))
    assert sac_outcome(run, tmp_path / "stopped") == train(run, tmp_path / "whole")


@small
@pytest.mark.parametrize(
    "settings", [{"period": 15, "policy_frequency": 1}, {"policy_frequency": 2, "replay_ratio": 3}]
)
def test_a_stop_after_every_step_changes_nothing_where_the_actor_learns_in_each(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    run = define("Hopper-v4", steps=30, **{"period": 30} | settings)
    for step in range(1, 31):
        notes = notes_of(run, tmp_path / "stopped", stop=after_chunks(1))
        steps = step * run.settings.replay_ratio
        assert notes.steps("resumed") == [steps - run.settings.replay_ratio]
        assert sum(notes.steps("progress")) == run.settings.replay_ratio
        assert notes.names[-1] == ("done" if step == 30 else "stopped")
    assert sac_outcome(run, tmp_path / "stopped") == train(run, tmp_path / "whole")


@small
def test_more_steps_later_are_the_same_as_from_the_start(tmp_path: Path) -> None:
    short, long = define("Hopper-v4", steps=20), define("Hopper-v4", steps=60)
    assert short.folder == long.folder
    assert train(short, tmp_path / "extended")["position"]["state"] == "done"
    assert train(long, tmp_path / "extended") == train(long, tmp_path / "whole")


@small
def test_a_buffer_of_any_size_takes_no_more_memory_than_there_are_steps(tmp_path: Path) -> None:
    runs = [define("Hopper-v4", buffer_size=size) for size in (60, 10**9)]
    exact, huge = (train(run, tmp_path) for run in runs)
    assert exact == huge


@small
def test_fewer_steps_later_change_nothing(tmp_path: Path) -> None:
    long, short = define("Hopper-v4", steps=40), define("Hopper-v4", steps=20)
    before = train(long, tmp_path)
    assert notes_of(short, tmp_path).names == ["resumed", "done"]
    assert sac_outcome(long, tmp_path) == before


@small
def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    run = define("Hopper-v4", steps=40)
    before = train(run, tmp_path)
    notes = notes_of(run, tmp_path)
    assert notes.names == ["resumed", "done"]
    assert notes.steps("resumed") == [40]
    assert sac_outcome(run, tmp_path) == before


@small
def test_steps_are_told_of_as_they_are_made(tmp_path: Path) -> None:
    run = define("Hopper-v4", steps=44, period=22, replay_ratio=2, policy_frequency=3)
    notes = notes_of(run, tmp_path, stop=after_chunks(4))
    assert notes.names == ["resumed", "progress", "progress", "progress", "row", "progress", "stopped"]
    assert notes.steps("progress") == [20, 20, 4, 20]
    notes = notes_of(run, tmp_path)
    assert notes.names[0] == "resumed"
    assert notes.steps("resumed") == [64]
    assert 64 + sum(notes.steps("progress")) == run.total_steps == 88


@small
def test_executed_runs_end_with_the_same_bits(tmp_path: Path) -> None:
    runs = [define("Hopper-v4", method, seed) for method, seed in (("adalin", 0), ("adalin", 1), ("baseline", 0))]
    notes = Notes()
    assert not execute(runs, Session(out=tmp_path / "out", emit=notes))
    assert notes.names.count("done") == 3
    assert "error" not in notes.names
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
        RunFolder(tmp_path / name / run.folder).save(replace(altered, pieces=checkpoint.pieces))
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
    shutil.copytree(tmp_path / "stopped", tmp_path / "other")
    folder = RunFolder(tmp_path / "other" / run.folder)
    checkpoint = folder.load(pytest.fail)
    assert checkpoint is not None
    buffer, changed = (ReplayBuffer(run.settings.buffer_size, 11, 3) for _ in range(2))
    buffer.load(folder.path, 30, checkpoint.pieces)
    changed._rows[:30] = buffer._rows[:30]
    changed._rows[:30, 0] += 0.1
    changed.added = 30
    folder.save(replace(checkpoint, pieces=changed.save(folder.path, keep_from=0)))
    assert train(run, tmp_path / "other") != expected
    assert train(run, tmp_path / "stopped") == expected


def errors_of(run: SACRun, out: Path) -> list[str]:
    """What is said of a run that cannot go on."""
    notes = Notes()
    execute([run], Session(out=out, emit=notes))
    return notes.messages("error")


# crashes


@small
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_a_crash_before_the_first_checkpoint_changes_nothing(
    chunks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transitions were written, the checkpoint that counts on them was not; the next one comes earlier, or later."""
    run = define("Hopper-v4", steps=40)

    def crash(*_: object, **__: object) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", crash)
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
    notes = notes_of(run, tmp_path / "out")
    (warning,) = notes.messages("warning")
    assert str(newest) in warning
    assert "trying the checkpoint before it" in warning
    assert notes.names.count("progress") == 3, "the chunk before the stop, and the two after it"
    assert sac_outcome(run, tmp_path / "out") == train(run, tmp_path / "whole")


@small
def test_rows_that_are_missing_before_a_checkpoint_are_noticed(tmp_path: Path) -> None:
    run = define("Hopper-v4")
    before = train(run, tmp_path, stop=after_chunks(5))
    rows = tmp_path / run.folder / "rows.jsonl"
    rows.write_bytes(rows.read_bytes().splitlines(keepends=True)[0])
    assert errors_of(run, tmp_path) == [
        f"{tmp_path / run.folder} has 1 rows, but its checkpoint comes after 2 tasks; "
        "restore rows.jsonl or delete the folder to start the run anew"
    ]
    assert RunFolder(tmp_path / run.folder).peek() == before["position"]


@small
def test_rows_without_a_checkpoint_are_made_again(tmp_path: Path) -> None:
    run = define("Hopper-v4")
    train(run, tmp_path / "out", stop=after_chunks(5))
    for path in (tmp_path / "out" / run.folder).glob("checkpoint-*"):
        path.unlink()
    notes = notes_of(run, tmp_path / "out", stop=after_chunks(1))
    assert notes.names[:2] == ["warning", "resumed"]
    (warning,) = notes.messages("warning")
    assert warning.startswith(f"{tmp_path / 'out' / run.folder} has 2 rows but no checkpoint")
    assert notes.steps("resumed") == [0]
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
    (message,) = errors_of(run, tmp_path)
    assert str(first) in message
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


@small
def test_transitions_of_another_run_are_refused_or_not_used(tmp_path: Path) -> None:
    runs = [define("Hopper-v4", seed=seed) for seed in (0, 1)]
    folders = [tmp_path / "out" / run.folder for run in runs]
    for run in runs:
        train(run, tmp_path / "out", stop=after_chunks(3), checkpoint_seconds=-1)
    own, others = (sorted(folder.glob("replay-*")) for folder in folders)
    kept = {path.name: path.read_bytes() for path in own}
    for path in others:  # beside its own
        shutil.copy(path, folders[0])
    shutil.copytree(tmp_path / "out", tmp_path / "beside")
    assert train(runs[0], tmp_path / "beside") == train(runs[0], tmp_path / "whole")
    for path in own:  # in place of its own
        path.unlink()
    (message,) = errors_of(runs[0], tmp_path / "out")
    assert message == (
        f"cannot read {own[0]}: No such file or directory; restore it or delete the folder to start the run anew"
    )
    for name, data in kept.items():
        (folders[0] / name).write_bytes(data)
    assert train(runs[0], tmp_path / "out") == train(runs[0], tmp_path / "whole")


@small
def test_a_checkpoint_of_another_run_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    runs = [define("Hopper-v4", seed=seed) for seed in (0, 1)]
    for run in runs:
        train(run, tmp_path / "out", stop=after_chunks(3 + run.seed), checkpoint_seconds=-1)
    shutil.copytree(tmp_path / "out" / runs[0].folder, tmp_path / "kept")
    for path in (tmp_path / "out" / runs[1].folder).glob("*-*.safetensors"):
        shutil.copy(path, tmp_path / "out" / runs[0].folder)
    before = sorted((tmp_path / "out" / runs[0].folder).iterdir())
    (message,) = errors_of(runs[0], tmp_path / "out")
    assert " is that of another run, or config.json was changed; put what belongs there back" in message
    assert sorted((tmp_path / "out" / runs[0].folder).iterdir()) == before
    shutil.rmtree(tmp_path / "out" / runs[0].folder)
    shutil.copytree(tmp_path / "kept", tmp_path / "out" / runs[0].folder)
    assert train(runs[0], tmp_path / "out") == train(runs[0], tmp_path / "whole")


@small
def test_an_unfinished_run_of_an_older_version_is_set_aside_and_trained_anew(tmp_path: Path) -> None:
    run = define("Hopper-v4")
    train(run, tmp_path / "out", stop=after_chunks(3), checkpoint_seconds=-1)
    folder = tmp_path / "out" / run.folder
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["engine"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    pieces = {path.name for path in folder.glob("*.safetensors")}
    notes = notes_of(run, tmp_path / "out")
    assert notes.messages("warning") == [
        f"{folder} is a run of an older version: it starts anew; its files are in set-aside-1"
    ]
    assert {path.name for path in (folder / "set-aside-1").glob("*.safetensors")} == pieces
    assert sac_outcome(run, tmp_path / "out") == train(run, tmp_path / "whole")
