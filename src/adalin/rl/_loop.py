"""The training loop of SAC: one run, from its last checkpoint to its end or to a signal."""

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adalin._seeds import generator
from adalin.engine import Engine, Net
from adalin.metrics import NetworkOnData, measure
from adalin.rl._build import SACRun, buffer_bytes, environment_of, kept_transitions, make_networks
from adalin.rl._environment import Environment
from adalin.rl._replay import ReplayBuffer
from adalin.rl._sac import SAC, Action
from adalin.runs import (
    Checkpoint,
    Ended,
    Event,
    Position,
    Problem,
    Progress,
    Row,
    RunFolder,
    RunFolderError,
    Session,
    Trial,
    made_with,
    resume,
)

METRICS = ("dormant", "srank", "weight_norm", "sign_entropy", "alpha", "saturation")
"""Metrics of actor and critics; gradient norms come from the updates."""
METRIC_TRANSITIONS = 1_024
CHUNK = 50
"""Steps in the environment between looks at the clock, at signals and at losses."""
UPDATES = 25
"""Updates within a step between looks at signals: a tenth of a second at most."""

PROTOCOL = {
    "algorithm": "SAC in CleanRL's order of updates; log std between -5 and 2, squashed by tanh",
    "replay ratio": "so many updates per step, each with a fresh batch; the actor's turn is counted in updates",
    "AdaLin": "in actor and critics; targets follow its alphas as they follow weights",
    "truncation": "an episode cut off by its time limit does not terminate: its last state has a value",
    "episodes": "each starts from a seed made of the run's seed and its number",
    "evaluation": "the deterministic policy, in episodes of their own",
    "metrics": f"on at most {METRIC_TRANSITIONS} transitions, evenly spread over the buffer; of both critics, the mean",
}


def sac_manifest(run: SACRun, engine: Engine, *, threads: int) -> dict[str, Any]:
    """Where and with what a run is made."""
    simulator = dict(part.split() for part in (run.settings.simulator or "").split(", ") if part)
    made = made_with(threads=threads, versions=simulator)
    return {"tasks": run.tasks, "data": None, "engine": engine.numbers, "protocol": PROTOCOL, **made}


@dataclass
class Period:
    """What is counted between two rows."""

    returns: list[float] = field(default_factory=list)
    """Returns of the episodes that ended."""
    lengths: list[int] = field(default_factory=list)
    """Lengths of these episodes."""
    sums: dict[str, float] = field(default_factory=dict)
    """Sum of each number that is watched while it learns."""
    looks: dict[str, int] = field(default_factory=dict)
    """Number of values in each sum."""

    def row(self) -> dict[str, float | None]:
        def mean(values: list[Any]) -> float | None:
            return sum(values) / len(values) if values else None

        watched = {name: total / self.looks[name] for name, total in self.sums.items()}
        counts = {"episodes": len(self.returns), "episode_length": mean(self.lengths)}
        return {"episode_return": mean(self.returns), **counts, **watched}


def train_agent(run: SACRun, folder: RunFolder, session: Session) -> None:
    """Train a run to its end. Whoever calls holds the folder's lock."""
    try:
        checkpoint = resume(run, folder, session)
        if checkpoint is not None:
            AgentLoop(run, folder, checkpoint, session).run()
    except RunFolderError as error:  # other runs can go on
        session.emit(Problem(run, str(error)))


def try_agent(run: SACRun) -> Trial:
    """What a few hundred updates and a first row cost."""
    settings = run.settings
    starts = -(-settings.batch_size // CHUNK) * CHUNK
    period = starts + CHUNK
    brief = run.with_settings(learning_starts=starts, period=period, steps=period)
    moments: dict[type[Event], float] = {}
    """Time of the last event of each class."""
    last_chunk = 0.0

    def note(event: Event) -> None:
        nonlocal last_chunk
        now = time.perf_counter()
        if isinstance(event, Progress):
            last_chunk = now - moments.get(Progress, now)
        moments[type(event)] = now

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        folder.create_or_check(dict(brief.config), {"tasks": 1})
        train_agent(brief, folder, Session(out=Path(place), emit=note, checkpoint_seconds=math.inf))
        rows = folder.path / "rows.jsonl"
        if not rows.exists():
            raise ValueError(f"{run.method} diverges at once: there is nothing to plan with")
        row = rows.stat().st_size
        checkpoint = max(path.stat().st_size for path in folder.path.glob("checkpoint-*"))
    # The last chunk is the only one with updates; then come the row and the end.
    per_step = last_chunk / (CHUNK * settings.replay_ratio)
    return Trial(per_step, moments[Row] - moments[Progress], row, checkpoint, buffer_bytes(run))


class Agent:
    """SAC with its buffer and its source of randomness, for an environment."""

    def __init__(self, run: SACRun, environment: Environment) -> None:
        self.run = run
        self.low, self.high = environment.bounds
        observations, actions = environment.observations, len(self.low)
        self.generator = generator(run.seed, "sac")
        self.sac = SAC(
            *make_networks(run, observations, actions),
            self.low,
            self.high,
            self.generator,
            **{name: getattr(run.settings, name) for name in ("gamma", "tau", "policy_lr", "q_lr", "policy_frequency")},
            rules=run.parsed_method.rules,
            seed=run.seed,
        )
        self.buffer = ReplayBuffer(kept_transitions(run), observations, actions)

    def act(self, environment: Environment) -> Action:
        """At first at random, to see something of the world."""
        if self.buffer.added < self.run.settings.learning_starts:
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

    def learn(self, made: int, stop: Callable[[], bool]) -> int:
        """As often as the replay ratio says, `made` times of it already; returns how often, which is less at a stop.

        It stops only where an update of the actor is still to come, so that what is looked at comes after the stop.
        """
        settings = self.run.settings
        if self.buffer.added <= settings.learning_starts:
            return settings.replay_ratio
        while made < settings.replay_ratio:
            self.sac.update(self.buffer.sample(settings.batch_size, self.generator))
            made += 1
            left = settings.replay_ratio - made
            if made % UPDATES == 0 and left >= settings.policy_frequency and stop():
                break
        return made


class AgentLoop:
    """Acts, learns, measures and saves."""

    def __init__(self, run: SACRun, folder: RunFolder, checkpoint: Checkpoint, session: Session) -> None:
        self._run, self._settings = run, run.settings
        self._folder, self._session = folder, session
        self._saved = time.monotonic()
        self._environment = Environment(environment_of(run), run.seed, "train")
        self._trial = Environment(environment_of(run), run.seed, "eval")
        self._agent = Agent(run, self._environment)
        self._task = self._step = self._made = self._kept = self._reported = 0
        self._period = Period()
        if checkpoint.tensors:
            self._restore(checkpoint)
        else:
            self._agent.buffer.load(folder.path, 0, ())  # deletes transitions that no checkpoint counts on

    def run(self) -> None:
        """Train to the end, or until the session asks to stop."""
        state = "running"
        while state == "running":
            if self._made == 0 and not self._act():
                self._save("diverged")
                return
            if not self._learn():
                self._save("stopped")
                return
            at_look = self._step % CHUNK == 0 or self._step == self._settings.period
            if at_look:
                self._look()
            if (at_look or self._stops_anywhere) and self._session.stop():
                self._report()
                state = "stopped"
            if self._task >= self._run.tasks:
                state = "done"
            is_due = at_look and time.monotonic() - self._saved > self._session.checkpoint_seconds
            if state != "running" or is_due:
                self._save(state)

    @property
    def _stops_anywhere(self) -> bool:
        """Whether each step has an update of the actor, so that nothing which is looked at comes from a step before."""
        return self._settings.replay_ratio >= self._settings.policy_frequency

    def _look(self) -> None:
        self._watch()
        self._report()
        if self._step == self._settings.period:
            self._end_period()

    def _report(self) -> None:
        """Tell of the steps that were made since the last time."""
        if self._step > self._reported:
            self._session.emit(Progress(self._run, (self._step - self._reported) * self._settings.replay_ratio))
            self._reported = self._step

    def _act(self) -> bool:
        """One step in the environment; False if there is no finite action."""
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
        return True

    def _learn(self) -> bool:
        """What is learned from a step; False if the session asks to stop before all of it."""
        self._made = self._agent.learn(self._made, self._session.stop)
        if self._made < self._settings.replay_ratio:
            return False
        self._made = 0
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
            "critic_gradient_norm": _gradient_norm(*sac.critics),
        }
        if sac.actor_loss is not None:
            seen |= {"actor_loss": sac.actor_loss.item(), "actor_gradient_norm": _gradient_norm(sac.actor)}
            sac.actor_loss = None  # so that none is seen twice, nor is there one to be saved
        for name, value in (seen | {"entropy_coefficient": sac.coefficient}).items():
            self._period.sums[name] = self._period.sums.get(name, 0.0) + value
            self._period.looks[name] = self._period.looks.get(name, 0) + 1

    def _end_period(self) -> None:
        row = {"task": self._task, "env_step": (self._task + 1) * self._settings.period, **self._period.row()}
        row |= {"eval_return": self._evaluate(), **self._measure()}
        self._folder.append_row(row)
        self._task, self._period = self._task + 1, Period()
        self._step = self._reported = 0
        self._session.emit(Row(self._run, row))

    def _evaluate(self) -> float:
        """The mean return of the deterministic policy."""
        returns = []
        for number in range(self._settings.eval_episodes):
            self._trial.start(self._task * self._settings.eval_episodes + number)
            over = False
            while not over:
                action = self._agent.sac.act(self._trial.observation, deterministic=True)
                if not np.isfinite(action).all():
                    return math.nan  # the next step in training ends the run
                over = self._trial.step(action).over
            returns.append(self._trial.episode_return)
        return sum(returns) / len(returns)

    def _measure(self) -> dict[str, Any]:
        sac, pairs = self._agent.sac, self._agent.buffer.spread_pairs(METRIC_TRANSITIONS)
        actor = measure(NetworkOnData(sac.actor.model, pairs[:, : self._environment.observations]), METRICS)
        first, second = (measure(NetworkOnData(critic.model, pairs), METRICS) for critic in sac.critics)
        row = {f"actor_{name}": value for name, value in actor.items()}
        return row | {f"critic_{name}": _both(first[name], second[name]) for name in METRICS}

    def _save(self, state: str) -> None:
        agent = self._agent
        # Before the checkpoint that counts on it; the one before that may still be needed.
        self._folder.check_lock()
        pieces = agent.buffer.save(self._folder.path, keep_from=self._kept)
        self._kept = agent.buffer.added
        more = {
            "updates": agent.sac.updates,
            "updates_in_step": self._made,
            "transitions": agent.buffer.added,
            "environment": self._environment.state(),
            "period": asdict(self._period),
        }
        position = Position(self._task, self._step, state, more=more)
        tensors = agent.state() | self._environment.simulator_state()
        self._folder.save(Checkpoint(tensors, position.as_dict(), pieces))
        self._folder.add_cost(time.monotonic() - self._saved)
        self._saved = time.monotonic()
        if state != "running":
            self._session.emit(Ended(self._run, position))

    def _restore(self, checkpoint: Checkpoint) -> None:
        agent, position = self._agent, checkpoint.position
        agent.restore(checkpoint)
        agent.buffer.load(self._folder.path, position["transitions"], checkpoint.pieces)
        self._kept = agent.buffer.added
        self._environment.restore(position["environment"], checkpoint.tensors)
        self._task, self._step, self._made = position["task"], position["step"], position.get("updates_in_step", 0)
        self._reported = self._step
        self._period = Period(**position["period"])


def _gradient_norm(*nets: Net) -> float:
    return math.hypot(*(part.grad.norm().item() for net in nets for part in net.parts))


def _both(first: Any, second: Any) -> Any:
    """Of two critics: the mean of numbers, lists one after the other."""
    if first is None or second is None:
        return None
    return first + second if isinstance(first, list) else (first + second) / 2
