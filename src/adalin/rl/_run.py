"""A run of SAC: what defines it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from adalin._seeds import seeded
from adalin.methods import Method
from adalin.models import make_model
from adalin.nn._bases import did_you_mean
from adalin.rl._environment import check_environment, simulator_version, transition_size
from adalin.training import AnyRun, Hardware
from adalin.training._any_run import LARGEST, Conditions, Trial, check_comparison, check_different

PREFIX = "sac-"
STEPS = 1_000_000
"""The paper's."""


@dataclass(frozen=True, kw_only=True)
class SACRun(AnyRun):
    """SAC with a method's activation in an environment; settings by default CleanRL's.

    A row is made after every period of `period` steps in the environment, and `tasks` is the number of periods.
    """

    score: ClassVar[str] = "episode_return"
    test_score: ClassVar[str] = "eval_return"
    task_name: ClassVar[str] = "period"

    benchmark: str
    """ "sac-" and the name of an environment of gymnasium."""
    method: str
    """An activation, which actor and critics have."""
    seed: int
    tasks: int
    period: int = 5_000
    replay_ratio: int = 1
    """Updates per step in the environment, each with a batch of its own."""
    layer_norm: bool = False
    """Before each activation."""
    batch_size: int = 256
    buffer_size: int = 1_000_000
    learning_starts: int = 5_000
    """Steps with random actions, before the first update."""
    gamma: float = 0.99
    tau: float = 0.005
    policy_lr: float = 3e-4
    q_lr: float = 1e-3
    """Of the critics, and of the entropy coefficient."""
    policy_frequency: int = 2
    """The actor rests for so many updates less one, and then makes as many."""
    eval_episodes: int = 3
    """With the deterministic policy, after each period."""
    simulator: str | None = None
    """Versions that an environment's numbers depend on, so that runs with others are other runs."""

    def __post_init__(self) -> None:
        counts = {"seed": 0, "tasks": 1, "period": 1, "replay_ratio": 1, "batch_size": 1, "buffer_size": 1}
        self.check_counts(counts | {"learning_starts": 0, "policy_frequency": 1, "eval_episodes": 1})
        for name in ("policy_lr", "q_lr", "gamma", "tau"):
            value, most = getattr(self, name), LARGEST if name.endswith("lr") else 1.0
            if isinstance(value, bool) or not (isinstance(value, float | int) and 0 < value <= most):
                bound = "positive" if name.endswith("lr") else "above 0 and at most 1"
                raise ValueError(f"{name.replace('_', '-')} must be a number that is {bound}, not {value!r}")
            object.__setattr__(self, name, float(value))
        method = Method.parse(self.method)
        if method.rules:
            raise ValueError(f"SAC takes activations only, not {self.method!r}")
        object.__setattr__(self, "method", str(method))

    @property
    def env(self) -> str:
        """The environment's name."""
        return self.benchmark.removeprefix(PREFIX)

    @property
    def steps(self) -> int:
        """In the environment."""
        return self.tasks * self.period

    def steps_of(self, tasks: int) -> int:
        return tasks * self.period * self.replay_ratio

    def steps_at(self, position: dict[str, Any]) -> int:
        made = self.steps_of(position["task"]) + position["step"] * self.replay_ratio
        return min(made, self.total_steps)

    @property
    def stack_key(self) -> tuple[Any, ...]:
        return (self.folder,)  # each by itself: there is nothing to share

    @property
    def about(self) -> str:
        return f"SAC in {self.env}; a period is {self.period:,} steps"

    @property
    def shows_plasticity(self) -> bool:
        return False

    @property
    def benchmark_name(self) -> str:
        return self.benchmark

    @property
    def source(self) -> str:
        return self.simulator or "an unknown simulator"

    @property
    def network(self) -> str:
        return "mlp-256, three of them"

    @property
    def steps_per_task(self) -> int:
        return self.period

    @property
    def command(self) -> list[str]:
        return ["adalin", "run", "sac", "--env", self.env]

    def settings(self) -> dict[str, Any]:
        left_out = ("benchmark", "method", "seed", "simulator")
        chosen = {name: value for name, value in self.config().items() if name not in left_out}
        return {"steps": self.steps, **chosen}

    def own_settings(self) -> dict[str, Any]:
        return {"steps": STEPS, **self.defaults()}

    def networks(self, observation: int, action: int) -> tuple[nn.Sequential, list[nn.Sequential], list[nn.Sequential]]:
        """Actor, critics and targets, newly initialised from the run's seed."""
        with seeded(self.seed, "init"):
            actor = self._network(observation, 2 * action)
            critics = [self._network(observation + action, 1) for _ in range(2)]
        # Whose first weights are those of the critics.
        return actor, critics, [self._network(observation + action, 1) for _ in range(2)]

    def check_network(self) -> None:
        """Raises ValueError if the networks cannot have the method's activation."""
        with seeded(self.seed, "init"):
            network, x = self._network(1, 1), torch.linspace(-3, 3, 32)[:, None]
            with torch.no_grad():
                is_repeatable = torch.allclose(network(x), network(x), rtol=0, atol=0, equal_nan=True)
        if not is_repeatable or next(network.buffers(), None) is not None:
            raise ValueError(f"SAC saves parameters only, and {self.method} draws random numbers or has buffers")

    def _network(self, inputs: int, outputs: int) -> nn.Sequential:
        plain = make_model("mlp-256", (inputs,), outputs, self.parsed_method.activation)
        if not all(parameter.requires_grad for parameter in plain.parameters()):
            raise ValueError(f"SAC trains all parameters, and {self.method} has some that are frozen")
        layers: list[nn.Module] = []
        assert isinstance(plain, nn.Sequential)
        *hidden, output = list(plain)[1:]  # without Flatten
        for layer in hidden:
            layers.append(layer)
            if self.layer_norm and isinstance(layer, nn.Linear):
                layers.append(nn.LayerNorm(layer.out_features))
        return nn.Sequential(*layers, output)

    @property
    def disk_bytes(self) -> int:
        return self.buffer_bytes + 20_000_000  # and checkpoints

    @property
    def kept_transitions(self) -> int:
        """How many the replay buffer has room for: no more than are made."""
        return min(self.steps, self.buffer_size)

    @property
    def buffer_bytes(self) -> int:
        """What the replay buffer takes, in memory and on disk."""
        return self.kept_transitions * 4 * transition_size(self.env)

    @classmethod
    def try_out(cls, runs: Sequence["SACRun"], dataset: Any, hardware: Hardware | None) -> Trial:
        from adalin.rl._train import try_sac  # here, as it trains runs

        return try_sac(runs[0])

    @classmethod
    def train(cls, runs: Sequence["SACRun"], conditions: Conditions) -> None:
        # Here, as it is defined by runs.
        from adalin.rl._train import sac_manifest, train_sac

        for run in runs:
            if run.simulator not in (None, installed := simulator_version(run.env)):
                message = f"{run.folder} is a run with {run.simulator}, and here is {installed}: install the former"
                conditions.report("error", run, {"message": message})
                continue
            folder = conditions.open_folder(run, sac_manifest(run, threads=torch.get_num_threads()))
            if folder is not None:
                train_sac(
                    run,
                    folder,
                    report=conditions.report,
                    stop=conditions.stop,
                    checkpoint_seconds=conditions.checkpoint_seconds,
                )


def define_sac_runs(
    env: str, methods: Sequence[str], seeds: Sequence[int], *, steps: int = STEPS, **settings: Any
) -> list[SACRun]:
    """The runs of a comparison; what is wrong with them is told before anything starts.

    Settings are those of `SACRun`; left out or None, its defaults.
    """
    check_comparison(methods, seeds)
    given = {name: value for name, value in settings.items() if value is not None}
    known = SACRun.defaults()
    for name in given:
        if name not in known:
            raise ValueError(f"there is no setting {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
    period = given.get("period", SACRun.period)
    if period < 1:
        raise ValueError(f"period must be at least 1, not {period}")
    if steps < period or steps % period:
        raise ValueError(f"steps must be a multiple of {period:,}, after which rows are made, not {steps:,}")
    check_environment(env)
    shared = {"benchmark": PREFIX + env, "tasks": steps // period, "simulator": simulator_version(env), **given}
    runs = [SACRun(method=method, seed=seed, **shared) for method in methods for seed in seeds]
    check_different(runs, methods)
    for run in runs[:: len(seeds)]:  # one of each method
        run.check_network()
    return runs
