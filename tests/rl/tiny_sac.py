"""Runs of SAC that train in a moment, and what comes of them to the bit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from adalin.executors import engine_settings
from adalin.models import MODELS
from adalin.rl import SACRun, _loop, environment_of
from adalin.rl._build import kept_transitions
from adalin.rl._environment import make_environment
from adalin.rl._replay import ReplayBuffer
from adalin.runs import RunFolder, Session, kinds
from notes import Notes
from tiny_runs import Outcome, outcome, tensor_digest

TINY: dict[str, Any] = {"steps": 60, "period": 20, "learning_starts": 12, "batch_size": 8, "eval_episodes": 1}


def make_small() -> None:
    """Networks of 16 units instead of 256, and chunks of 10 steps: where only the order of things matters."""
    MODELS._entries["mlp-256"] = replace(MODELS.get("mlp-256"), hidden=(16, 16))
    _loop.CHUNK = 10


def define_all(env: str, methods: Sequence[str], seeds: Sequence[int], **settings: Any) -> list[SACRun]:
    return kinds.get("sac").define("sac", methods, seeds, env=env, **settings).runs


def define(env: str, method: str = "adalin", seed: int = 0, **settings: Any) -> SACRun:
    (run,) = define_all(env, [method], [seed], **TINY | settings)
    return run


def train(run: SACRun, out: Path, **options: Any) -> Outcome:
    """Train a run from wherever its folder is."""
    with engine_settings():
        kinds.get("sac").train(run, Session(out=out, **options))
    return sac_outcome(run, out)


def sac_outcome(run: SACRun, out: Path) -> Outcome:
    """Rows, checkpoint and replay buffer."""
    folder = out / run.folder
    result = outcome(folder)
    checkpoint = RunFolder(folder).load(lambda message: None)
    if checkpoint is not None:
        env = make_environment(environment_of(run))
        buffer = ReplayBuffer(kept_transitions(run), env.observation_space.shape[0], env.action_space.shape[0])
        buffer.load(folder, checkpoint.position["transitions"], checkpoint.pieces)
        result["buffer"] = tensor_digest(buffer._rows[: len(buffer)])
    return result


def notes_of(run: SACRun, out: Path, **options: Any) -> Notes:
    """All that is told of while it is trained."""
    notes = Notes()
    train(run, out, emit=notes, **options)
    return notes


def after_chunks(count: int) -> Callable[[], bool]:
    """A `stop` that says so when it has been asked so often."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= count

    return stop
