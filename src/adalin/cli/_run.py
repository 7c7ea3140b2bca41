"""demo, run, plan."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from tyro.conf import Positional, arg

from adalin.cli._shared import Picture, Settings, Workers, show

if TYPE_CHECKING:
    from adalin.data import Dataset
    from adalin.rl import SACRun
    from adalin.training import AnyRun

DEMO_METHODS = ("baseline", "adalin", "tanh", "adalin-tanh")


@dataclass(frozen=True, kw_only=True)
class SAC:
    """For the benchmark "sac" only, by default CleanRL's. --steps are then those in the environment."""

    env: str | None = None
    """An environment of gymnasium: Hopper-v4, HalfCheetah-v4, Ant-v4, ..."""
    replay_ratio: int | None = None
    """Updates per step in the environment."""
    layer_norm: bool = False
    """Normalise before each activation."""
    period: int | None = None
    """Steps between rows."""
    learning_starts: int | None = None
    """Steps with random actions at first."""
    buffer_size: int | None = None
    """Transitions that are kept."""
    gamma: float | None = None
    """Discount."""
    tau: float | None = None
    """How fast target networks follow."""
    policy_lr: float | None = None
    """Of the actor."""
    q_lr: float | None = None
    """Of the critics."""
    policy_frequency: int | None = None
    """Updates between those of the actor."""
    eval_episodes: int | None = None
    """After each period, with the deterministic policy."""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


@dataclass(frozen=True, kw_only=True)
class Run(Settings):
    """Train methods on a benchmark, or go on where the same command stopped."""

    benchmark: Annotated[Positional[str], arg(metavar="BENCHMARK")]
    """A benchmark's name, see `adalin list`; or sac, with --env."""
    methods: tuple[str, ...] = ("baseline", "adalin")
    """Activations and rules, joined by +, options after a colon: adalin, adalin-tanh+l2, l2:strength=0.001."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """One run for each method and seed."""
    base: str = "relu"
    """The base activation of those methods that have one and do not name it."""
    lr: float | None = None
    """Learning rate."""
    batch_size: int | None = None
    """Images or transitions per step."""
    picture: Picture = None
    sac: SAC = field(default_factory=SAC)

    def define(self) -> "tuple[list[AnyRun], Dataset | None]":
        self.prepare()
        from adalin.methods import Method
        from adalin.report import check_figure_path
        from adalin.training import define_runs

        if self.picture is not None:
            check_figure_path(self.picture)
        methods = [str(Method.parse(method, base=self.base)) for method in self.methods]
        settings = self.settings() | {"lr": self.lr, "batch_size": self.batch_size}
        if self.benchmark == "sac":
            return [*self._define_sac(methods, settings)], None
        for name in self.sac.given():
            raise ValueError(f"{_option(name)} is for sac, not for {self.benchmark}")
        runs, dataset = define_runs(self.benchmark, methods, self.seeds, data=self.data, **settings)
        return [*runs], dataset

    def _define_sac(self, methods: list[str], settings: dict[str, Any]) -> "list[SACRun]":
        from adalin.rl import define_sac_runs

        options = self.sac.given()
        if "env" not in options:
            raise ValueError("sac needs an environment: --env Hopper-v4")
        for name, value in settings.items():
            if name not in ("steps", "batch_size") and value not in (None, "plain", "float32"):
                raise ValueError(f"{_option(name)} is not for sac")
        if self.device != "cpu" or self.compile:
            raise ValueError("sac is trained on the CPU, as it is: leave out --device and --compile")
        chosen = {name: settings[name] for name in ("steps", "batch_size") if settings[name] is not None}
        return define_sac_runs(methods=methods, seeds=self.seeds, **options, **chosen)

    def __call__(self, console: Console) -> int:
        runs, dataset = self.define()
        self.say_data(dataset, console)
        results, code = self.train(runs, console)
        if results:
            show(results, console, self.picture)
        return code


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """ReLU and Tanh lose plasticity on random-label MNIST, with AdaLin they do not. Bundled digits, minutes."""

    out: Path = Path("runs/demo")
    """Folder of the runs."""
    picture: Picture = None
    tasks: int = 10
    epochs: int = 200
    images: int = 800
    """Per task; the benchmark has 1,200, which take half as long again."""
    seeds: tuple[int, ...] = (3, 4, 5)
    workers: Workers = None

    def __call__(self, console: Console) -> int:
        from adalin.data import BUNDLED

        run = Run(
            benchmark="random-label-mnist",
            methods=DEMO_METHODS,
            seeds=self.seeds,
            tasks=self.tasks,
            epochs=self.epochs,
            images=self.images,
            data=Path(BUNDLED),
            workers=self.workers,
            out=self.out,
            picture=self.picture or self.out / "demo.png",
        )
        console.print(
            f"In every task {self.images:,} digits get new random labels. By chance the accuracy is 0.10.",
            highlight=False,
        )
        return run(console)


@dataclass(frozen=True, kw_only=True)
class Plan(Run):
    """What such a `run` would take: steps, time and disk, from a few seconds of training."""

    def __call__(self, console: Console) -> int:
        from adalin.report import duration
        from adalin.training import plan

        runs, dataset = self.define()
        result = plan(runs, dataset, workers=self.processes, hardware=self.hardware)
        stacks = ", ".join(map(str, result.stacks))
        console.print(f"{len(runs)} runs of {runs[0].tasks} {runs[0].task_name}s, {result.steps:,} steps in all")
        console.print(f"{len(result.stacks)} stacks of {stacks} runs on {self.processes} processes")
        console.print(f"about {duration(result.seconds)} on this machine as it is now")
        console.print(f"about {result.disk_bytes / 1e6:.1f} MB of disk")
        return 0
