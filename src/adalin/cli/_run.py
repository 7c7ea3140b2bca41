"""run, plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from adalin.cli._options import HelpGroup, Metavar, flag, given
from adalin.cli._settings import NetworkOptions, SACOptions, StreamOptions
from adalin.cli._shared import Output, WithPicture, show
from adalin.cli._training import Machine, Training

if TYPE_CHECKING:
    from adalin.runs import Comparison


@dataclass(frozen=True, kw_only=True)
class Definition(Machine):
    """What is trained: methods on a benchmark."""

    benchmark: Positional[str]
    """Name of a benchmark, see `adalin list`; or sac, with --env."""
    methods: Annotated[tuple[str, ...], Metavar("METHOD")] = ("baseline", "adalin")
    """Methods: an activation, an optimiser and rules, joined by +, options after a colon: adalin, adam+adalin-tanh+l2,
    sgd:momentum=0.9, l2:strength=0.001."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """Seeds, with one run for each method and seed."""
    base: str = "relu"
    """Base activation of those methods that have one and do not name it."""
    env: str | None = None
    """Environment of gymnasium for sac: Hopper-v4, HalfCheetah-v4, Ant-v4, ..."""
    settings: StreamOptions = field(default_factory=StreamOptions)
    network: Annotated[NetworkOptions, HelpGroup("network and protocol")] = field(default_factory=NetworkOptions)
    sac: Annotated[SACOptions, HelpGroup("sac")] = field(default_factory=SACOptions)

    def define(self) -> "Comparison":
        """The runs; what is wrong with any of them is told before the first is trained."""
        self.prepare()
        from adalin.runs import kind_of

        kind = kind_of(self.benchmark)
        if not kind.uses_hardware and (self.device != "cpu" or self.compile):
            raise ValueError(f"{kind.name} is trained on the CPU, as it is: leave out --device and --compile")
        options = given(self.settings) | given(self.network) | given(self.sac)
        if self.env is not None:
            options["env"] = self.env
        self._refuse_options_of_others(options)
        comparison = kind.define(self.benchmark, self._full_methods(), self.seeds, data=self.data, **options)
        if not comparison.uses_hardware and (self.device != "cpu" or self.compile):
            raise ValueError("native kernels train these networks, on the CPU: leave out --device and --compile")
        return comparison

    def _full_methods(self) -> list[str]:
        """The methods with their bases."""
        from adalin.methods import Method

        methods = [str(Method.parse(method, base=self.base)) for method in self.methods]
        if self.base != Definition.base and methods == [str(Method.parse(method)) for method in self.methods]:
            raise ValueError(f"--base is for methods that have a base and do not name it, not for {' '.join(methods)}")
        return methods

    def _refuse_options_of_others(self, options: dict[str, Any]) -> None:
        from adalin.runs import kind_of, kinds

        owners = {kind.name: {*kind.settings.options(), *kind.place_options} for kind in kinds.listing().values()}
        for name in options:
            if name not in owners[kind_of(self.benchmark).name]:
                others = " and ".join(owner for owner, names in owners.items() if name in names)
                raise ValueError(f"{flag(name)} is for {others} benchmarks, not for {self.benchmark}")


@dataclass(frozen=True, kw_only=True)
class RunCommand(Definition, Training, WithPicture):
    """Train methods on a benchmark, or go on where the same command stopped."""

    def __call__(self, console: Output) -> int:
        from adalin.report import check_figure_path, check_parent

        if self.picture is not None:
            check_figure_path(self.picture)
            if self.picture.parent != self.out:  # which is made
                check_parent(self.picture)
        comparison = self.define()
        self.describe_data(comparison.dataset, console)
        describe_engines(comparison.engines, console)
        results, code = self.train(comparison.runs, console)
        if results:
            show(results, console, self.picture)
        return code


def describe_engines(engines: Mapping[str, str], console: Output) -> None:
    """Say what computes the networks, and of which methods where that differs."""
    for engine in dict.fromkeys(engines.values()):
        methods = [method for method, own in engines.items() if own == engine]
        which = "" if len(methods) == len(engines) else f" for {', '.join(methods)}"
        console.print(f"engine: {engine}{which}", soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class PlanCommand(Definition):
    """What such a `run` would take: steps, time and disk, from a few seconds of training."""

    def __call__(self, console: Output) -> int:
        from adalin._text import duration
        from adalin.executors import plan

        comparison = self.define()
        runs = comparison.runs
        result = plan(runs, workers=self.processes, data=self.data, hardware=self.hardware)
        rows = f"{runs[0].tasks} {runs[0].description.task_name}s"
        console.print(f"{len(runs)} runs of {rows}, {result.steps:,} steps in all")
        describe_engines(comparison.engines, console)
        processes = "1 process" if self.processes == 1 else f"{self.processes} processes"
        console.print(f"about {duration(result.seconds)} on {processes} of this machine as it is now")
        console.print(f"about {result.disk_bytes / 1e6:.1f} MB of disk")
        return 0
