"""Runs of SAC that train in a moment, and what comes of them to the bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adalin.models import _build
from adalin.rl import SACRun, _train, define_sac_runs
from adalin.rl._environment import make_environment
from adalin.rl._replay import ReplayBuffer
from adalin.training import RunFolder
from adalin.training._execute import engine_settings
from tiny_runs import Outcome, outcome, tensor_digest

TINY: dict[str, Any] = {"steps": 60, "period": 20, "learning_starts": 12, "batch_size": 8, "eval_episodes": 1}


def make_small() -> None:
    """Networks of 16 units instead of 256, and chunks of 10 steps: where only the order of things matters."""
    build, _, summary = _build._MODELS["mlp-256"]
    _build._MODELS["mlp-256"] = build, (16, 16), summary
    _train.CHUNK = 10


def define(env: str, method: str = "adalin", seed: int = 0, **settings: Any) -> SACRun:
    (run,) = define_sac_runs(env, [method], [seed], **TINY | settings)
    return run


def train(run: SACRun, out: Path, **options: Any) -> Outcome:
    """Train a run from wherever its folder is."""
    folder = RunFolder(out / run.folder)
    with engine_settings(), folder.lock():
        folder.create_or_check(run.config(), {"tasks": run.tasks, "data": None})
        _train.train_sac(run, folder, **options)
    return sac_outcome(run, out)


def sac_outcome(run: SACRun, out: Path) -> Outcome:
    """Rows, checkpoint and replay buffer."""
    folder = out / run.folder
    result = outcome(folder)
    if "position" in result:
        env = make_environment(run.env)
        buffer = ReplayBuffer(run.kept_transitions, env.observation_space.shape[0], env.action_space.shape[0])
        buffer.load(folder, result["position"]["transitions"])
        result["buffer"] = tensor_digest(buffer._rows[: len(buffer)])
    return result


def events_of(run: SACRun, out: Path, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """All that is told of while it is trained."""
    events: list[tuple[str, dict[str, Any]]] = []
    train(run, out, report=lambda event, run, details: events.append((event, details)), **options)
    return events


def after_chunks(count: int) -> Callable[[], bool]:
    """A `stop` that says so when it has been asked so often."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= count

    return stop
