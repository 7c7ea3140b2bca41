"""The training loop of SAC: one run, from its last checkpoint to its end or to a signal."""

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adalin._seeds import generator
from adalin.metrics import Probe, measure
from adalin.rl._environment import Environment
from adalin.rl._replay import ReplayBuffer
from adalin.rl._run import SACRun
from adalin.rl._sac import SAC, Action
from adalin.training import RunFolder, RunFolderError
from adalin.training._any_run import AnyRun, Report, Trial
from adalin.training._manifest import made_with
from adalin.training._resume import resume
from adalin.training._run_folder import Checkpoint

METRICS = ("dormant", "srank", "weight_norm", "sign_entropy", "alpha", "saturation")
"""Of actor and critics, those that do not need labels; gradient norms come from the updates."""
PROBE_TRANSITIONS = 1_024
CHUNK = 50
"""Steps in the environment between looks at the clock, at signals and at losses."""

PROTOCOL = {
    "algorithm": "SAC in CleanRL's order of updates; log std between -5 and 2, squashed by tanh",
    "replay ratio": "so many updates per step, each with a fresh batch; the actor's turn is counted in updates",
    "AdaLin": "in actor and critics; targets follow its alphas as they follow weights",
    "truncation": "an episode cut off by its time limit does not terminate: its last state has a value",
    "episodes": "each starts from a seed made of the run's seed and its number",
    "evaluation": "the deterministic policy, in episodes of their own",
    "metrics": f"on at most {PROBE_TRANSITIONS} transitions, evenly spread over the buffer; of both critics, the mean",
}


def sac_manifest(run: SACRun, *, threads: int) -> dict[str, Any]:
    """Where and with what a run is made."""
    simulator = dict(part.split() for part in (run.simulator or "").split(", ") if part)
    return {"tasks": run.tasks, "data": None, "protocol": PROTOCOL, **made_with(threads=threads, versions=simulator)}


@dataclass
class Period:
    """What is counted between two rows."""

    returns: list[float] = field(default_factory=list)
    """Of the episodes that ended."""
    lengths: list[int] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    """Of what is watched while it learns."""
    looks: dict[str, int] = field(default_factory=dict)
    """How often."""

    def row(self) -> dict[str, float | None]:
        def mean(values: list[Any]) -> float | None:
            return sum(values) / len(values) if values else None

        watched = {name: total / self.looks[name] for name, total in self.sums.items()}
        counts = {"episodes": len(self.returns), "episode_length": mean(self.lengths)}
        return {"episode_return": mean(self.returns), **counts, **watched}


def train_sac(
    run: SACRun,
    folder: RunFolder,
    *,
    report: Report = lambda event, run, details: None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 60.0,
) -> None:
    """Train a run to its end. Whoever calls holds the folder's lock."""
    try:
        checkpoint, goes_on = resume(run, folder, report)
        if goes_on:
            _Loop(run, folder, checkpoint, report, stop, checkpoint_seconds).go()
    except RunFolderError as error:  # other runs can go on
        report("error", run, {"message": str(error)})


def try_sac(run: SACRun) -> Trial:
    """What a few hundred updates and a first row cost."""
    starts = -(-run.batch_size // CHUNK) * CHUNK
    brief = replace(run, learning_starts=starts, period=starts + CHUNK, tasks=1)
    moments: list[float] = []

    def note(event: str, run: AnyRun, details: dict[str, Any]) -> None:
        moments.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        folder.create_or_check(brief.config(), {"tasks": 1})
        train_sac(brief, folder, report=note, checkpoint_seconds=math.inf)
        if not (rows := folder.path / "rows.jsonl").exists():
            raise ValueError(f"{run.method} diverges at once: there is nothing to plan with")
        row = rows.stat().st_size
        checkpoint = max(path.stat().st_size for path in folder.path.glob("checkpoint-*"))
    # The last chunk is the only one with updates; then come the row and the end.
    per_step = (moments[-3] - moments[-4]) / (CHUNK * run.replay_ratio)
    return Trial(per_step, moments[-2] - moments[-3], row, checkpoint, run.buffer_bytes)


class Agent:
    """SAC with its buffer and its source of randomness, for an environment."""

    def __init__(self, run: SACRun, environment: Environment) -> None:
        self.run = run
        self.low, self.high = environment.bounds
        observations, actions = environment.observations, len(self.low)
        self.generator = generator(run.seed, "sac")
        self.sac = SAC(
            *run.networks(observations, actions),
            self.low,
            self.high,
            self.generator,
            **{name: getattr(run, name) for name in ("gamma", "tau", "policy_lr", "q_lr", "policy_frequency")},
        )
        self.buffer = ReplayBuffer(run.kept_transitions, observations, actions)

    def act(self, environment: Environment) -> Action:
        """At first at random, to see something of the world."""
        if self.buffer.added < self.run.learning_starts:
            share = torch.rand(self.low.shape, generator=self.generator)
            return (self.low + share * (self.high - self.low)).numpy()
        return self.sac.act(environment.observation)

    def state(self) -> dict[str, torch.Tensor]:
        """All that it needs to go on, but for its buffer."""
        return {**self.sac.state(), "generator": self.generator.get_state()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, but for its buffer."""
        self.sac.restore(checkpoint.tensors, checkpoint.position["updates"])
        self.generator.set_state(checkpoint.tensors["generator"])

    def learn(self) -> None:
        """As often as the replay ratio says."""
        if self.buffer.added > self.run.learning_starts:
            for _ in range(self.run.replay_ratio):
                self.sac.update(self.buffer.sample(self.run.batch_size, self.generator))


class _Loop:
    def __init__(
        self,
        run: SACRun,
        folder: RunFolder,
        checkpoint: Checkpoint,
        report: Report,
        stop: Callable[[], bool],
        checkpoint_seconds: float,
    ) -> None:
        self._run, self._folder, self._report, self._stop = run, folder, report, stop
        self._checkpoint_seconds, self._saved = checkpoint_seconds, time.monotonic()
        self._environment = Environment(run.env, run.seed, "train")
        self._trial = Environment(run.env, run.seed, "eval")
        self._agent = Agent(run, self._environment)
        self._task = self._step = self._kept = 0
        self._period = Period()
        if checkpoint.tensors:
            self._restore(checkpoint)
        else:
            self._agent.buffer.load(folder.path, 0)  # deletes transitions that no checkpoint counts on

    def go(self) -> None:
        state = "running"
        while state == "running":
            for _ in range(min(CHUNK - self._step % CHUNK, self._run.period - self._step)):
                if not self._act():
                    self._save("diverged")
                    return
            self._watch()
            steps = self._step - (self._step - 1) // CHUNK * CHUNK
            self._report("steps", self._run, {"steps": steps * self._run.replay_ratio})
            if self._step == self._run.period:
                self._end_period()
            state = "done" if self._task >= self._run.tasks else "stopped" if self._stop() else "running"
            if state != "running" or time.monotonic() - self._saved > self._checkpoint_seconds:
                self._save(state)

    def _act(self) -> bool:
        """One step in the environment, and what is learned from it; False if there is no finite action."""
        environment, agent = self._environment, self._agent
        before, action = environment.observation, agent.act(environment)
        if not np.isfinite(action).all():
            return False
        after = environment.step(action)
        agent.buffer.add(before, action, after.reward, after.terminated, after.next_observation)
        if after.over:
            self._period.returns.append(environment.episode_return)
            self._period.lengths.append(environment.steps)
            environment.start(environment.episode + 1)
        agent.learn()
        self._step += 1
        return True

    def _watch(self) -> None:
        """Look at the last update."""
        sac = self._agent.sac
        if not sac.updates:
            return
        seen = {
            "critic_loss": sac.errors.square().mean(1).sum().item(),
            "q_value": sac.values.mean().item(),
            "critic_gradient_norm": sac.critics.gradient.norm().item(),
        }
        if sac.actor_loss is not None:
            seen |= {"actor_loss": sac.actor_loss.item(), "actor_gradient_norm": sac.actor.gradient.norm().item()}
            sac.actor_loss = None  # so that none is seen twice, nor is there one to be saved
        for name, value in (seen | {"entropy_coefficient": sac.coefficient}).items():
            self._period.sums[name] = self._period.sums.get(name, 0.0) + value
            self._period.looks[name] = self._period.looks.get(name, 0) + 1

    def _end_period(self) -> None:
        row = {"task": self._task, "env_step": (self._task + 1) * self._run.period, **self._period.row()}
        row |= {"eval_return": self._evaluate(), **self._measure()}
        self._folder.append_row(row)
        self._task, self._step, self._period = self._task + 1, 0, Period()
        self._report("row", self._run, row)

    def _evaluate(self) -> float:
        """The mean return of the deterministic policy."""
        returns = []
        for number in range(self._run.eval_episodes):
            self._trial.start(self._task * self._run.eval_episodes + number)
            over = False
            while not over:
                action = self._agent.sac.act(self._trial.observation, deterministic=True)
                if not np.isfinite(action).all():
                    return math.nan  # the next step in training ends the run
                over = self._trial.step(action).over
            returns.append(self._trial.episode_return)
        return sum(returns) / len(returns)

    def _measure(self) -> dict[str, Any]:
        sac, pairs = self._agent.sac, self._agent.buffer.spread_pairs(PROBE_TRANSITIONS)
        labels = torch.zeros(len(pairs), dtype=torch.long)  # which none of these metrics looks at
        observations = pairs[:, : self._environment.observations]
        (actor,) = (measure(Probe(one, observations, labels), METRICS) for one in sac.actor.write_modules())
        first, second = (measure(Probe(one, pairs, labels), METRICS) for one in sac.critics.write_modules())
        row = {f"actor_{name}": value for name, value in actor.items()}
        return row | {f"critic_{name}": _both(first[name], second[name]) for name in METRICS}

    def _save(self, state: str) -> None:
        agent = self._agent
        # Before the checkpoint that counts on it; the one before that may still be needed.
        agent.buffer.save(self._folder.path, keep_from=self._kept)
        self._kept = agent.buffer.added
        position = {
            "task": self._task,
            "step": self._step,
            "state": state,
            "updates": agent.sac.updates,
            "transitions": agent.buffer.added,
            "environment": self._environment.state(),
            "period": vars(self._period),
        }
        self._folder.save(Checkpoint(agent.state() | self._environment.simulator_state(), position))
        self._folder.add_cost(time.monotonic() - self._saved)
        self._saved = time.monotonic()
        if state != "running":
            self._report(state, self._run, position)

    def _restore(self, checkpoint: Checkpoint) -> None:
        agent, position = self._agent, checkpoint.position
        agent.restore(checkpoint)
        agent.buffer.load(self._folder.path, position["transitions"])
        self._kept = agent.buffer.added
        self._environment.restore(position["environment"], checkpoint.tensors)
        self._task, self._step = position["task"], position["step"]
        self._period = Period(**position["period"])


def _both(first: Any, second: Any) -> Any:
    """Of two critics: the mean of numbers, lists one after the other."""
    if first is None or second is None:
        return None
    return first + second if isinstance(first, list) else (first + second) / 2
