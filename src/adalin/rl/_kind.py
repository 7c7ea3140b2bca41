"""Runs of SAC, as a kind of runs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adalin.methods import Method
from adalin.optim import SGD
from adalin.rl._build import PREFIX, SACRun, buffer_bytes, check_network, environment_of, make_network
from adalin.rl._environment import check_environment, simulator_version
from adalin.rl._loop import sac_manifest, train_agent, try_agent
from adalin.runs import (
    Comparison,
    Description,
    Kind,
    Problem,
    Run,
    Session,
    Trial,
    check_comparison,
    check_different,
)
from adalin.settings import SACSettings

_ENVIRONMENT = re.compile(r"(?:[A-Za-z0-9_:.-]+/)?[A-Za-z0-9_:.-]+")
"""Names of gymnasium's environments: [namespace/]name-v4."""


ACTOR = "actor."
"""What names of the actor's tensors begin with."""


class SoftActorCritic(Kind[SACSettings]):
    """SAC with a method's activation in an environment."""

    name = "sac"
    summary = "Soft Actor-Critic in any environment of gymnasium: --env Hopper-v4"
    paper = "Haarnoja et al. 2018"
    settings = SACSettings
    place_options = ("env",)
    uses_hardware = False

    def owns(self, benchmark: str) -> bool:
        return benchmark == self.name or benchmark.startswith(PREFIX)

    def define(
        self,
        benchmark: str,
        methods: Sequence[str],
        seeds: Sequence[int],
        *,
        data: Any = None,
        env: str | None = None,
        **chosen: Any,
    ) -> Comparison:
        check_comparison(methods, seeds)
        if data is not None:
            raise ValueError("sac has no data set: leave out --data")
        if env is None and benchmark != self.name:
            env = benchmark.removeprefix(PREFIX)
        if env is None:
            raise ValueError("sac needs an environment: --env Hopper-v4")
        given = SACSettings.given(chosen)
        check_environment(env)
        settings = SACSettings(**given, simulator=simulator_version(env))
        if settings.learning_starts >= settings.steps:
            raise ValueError(
                f"learning-starts must be less than the {settings.steps:,} steps, not {settings.learning_starts:,}: "
                "an agent that never learns is no result"
            )
        runs = [_make(PREFIX + env, method, seed, settings) for method in methods for seed in seeds]
        check_different(runs)
        engines = {run.method: str(check_network(run)) for run in runs[:: len(seeds)]}
        return Comparison(runs, engines=engines)

    def example(self, benchmark: str, method: str, seed: int, **chosen: Any) -> SACRun:
        return _make(benchmark, method, seed, SACSettings(**SACSettings.given(chosen)))

    def read(self, definition: Mapping[str, Any]) -> SACRun:
        values = dict(definition)
        benchmark, method, seed, tasks = (values.pop(name) for name in ("benchmark", "method", "seed", "tasks"))
        period = values.get("period", SACSettings.period)
        return _make(benchmark, method, seed, SACSettings(**values, steps=tasks * period))

    def describe(self, run: SACRun) -> Description:
        env, settings = environment_of(run), run.settings
        return Description(
            benchmark=run.benchmark,
            title=f"SAC on {env}",
            summary=f"SAC in {env}; a period is {settings.period:,} steps",
            network="mlp-256, three of them",
            command=("adalin", "run", self.name, "--env", env),
            settings=settings.chosen(),
            own=SACSettings().chosen(),
            score="episode_return",
            test_score="eval_return",
            task_name="period",
            steps_per_task=settings.period,
            source=settings.simulator or "an unknown simulator",
        )

    def steps_of(self, run: SACRun, tasks: int) -> int:
        return tasks * run.settings.period * run.settings.replay_ratio

    def steps_in_task(self, run: SACRun, step: int) -> int:
        return step * run.settings.replay_ratio

    def disk_bytes(self, run: SACRun) -> int:
        return buffer_bytes(run) + 20_000_000  # and checkpoints

    def train(self, run: SACRun, session: Session) -> None:
        installed = simulator_version(environment_of(run))
        wanted = run.settings.simulator
        if wanted not in (None, installed):
            message = f"{run.folder} is a run with {wanted}, and here is {installed}: install the former"
            session.emit(Problem(run, message))
            return
        manifest = sac_manifest(run, check_network(run), threads=torch.get_num_threads())
        with session.opened(run, manifest) as folder:
            if folder is not None:
                train_agent(run, folder, session)

    def network(self, run: SACRun, tensors: Mapping[str, Tensor], data: Any = None) -> nn.Module:
        """The actor: its outputs are the means of the actions, then their log deviations before they are squashed."""
        own = {name.removeprefix(ACTOR): value for name, value in tensors.items() if name.startswith(ACTOR)}
        matrices = [value for value in own.values() if value.dim() == 2]
        model = make_network(run, matrices[0].shape[1], matrices[-1].shape[0])
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.copy_(own[name])
        return model

    def trial(self, run: SACRun, session: Session) -> Trial:
        return try_agent(run)


def _make(benchmark: str, method: str, seed: int, settings: SACSettings) -> SACRun:
    if not _ENVIRONMENT.fullmatch(benchmark.removeprefix(PREFIX)):
        raise ValueError(f"there is no environment {benchmark.removeprefix(PREFIX)!r}")
    parsed = Method.parse(method)
    if parsed.optimizer != SGD():
        raise ValueError(f"SAC has Adam, not {parsed.optimizer.name}: leave it out of {method!r}")
    for rule in parsed.rules:
        if rule.of_plain_sgd:
            raise ValueError(f"SAC has Adam, and {rule.name} is an optimiser of its own")
        if "tasks" in rule.needs:
            hint = ": give it a number of steps, every=..." if hasattr(rule, "every") else ""
            raise ValueError(f"{rule.name} acts when tasks begin or end, and SAC has none{hint}")
    return Run(kind=SoftActorCritic.name, benchmark=benchmark, method=method, seed=seed, settings=settings)
