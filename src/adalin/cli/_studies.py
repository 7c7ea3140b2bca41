"""reproduce, sweep."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional

from adalin.cli._options import HelpGroup, Metavar, allow, given
from adalin.cli._settings import NetworkOptions, SweepOptions
from adalin.cli._shared import Output, show
from adalin.cli._training import Training

if TYPE_CHECKING:
    from adalin.runs import Result, Run
    from adalin.settings import SupervisedSettings
    from adalin.studies import Point, Recipe, Search

    StreamRun = Run[SupervisedSettings]

WAIT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class ReproduceCommand(Training):
    """Make a figure or table of the paper: train what it needs, draw it, judge its claims."""

    recipe: Positional[str | None] = None
    """Name of a recipe, see --list; or "all"."""
    list: bool = False
    """List of the recipes, in place of a figure."""
    budget: Literal["quick", "short", "paper"] = "quick"
    """Size: quick (the figure's shape, within an hour), short (the paper's tasks, fewer of them) or paper (all)."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """Seeds: any but 0, 1 and 2, which are those of sweeps."""
    plan: bool = False
    """Estimate of what is still to do, from a few seconds of training, in place of a figure."""

    def __call__(self, console: Output) -> int:
        self.prepare()
        from adalin.data import load
        from adalin.studies import get_recipe, recipes

        if self.list and self.recipe is not None:
            raise ValueError(f"--list says what there is: leave out {self.recipe!r} or --list")
        if self.list or self.recipe is None:
            allow(self, {"list", "plugin"}, "on the list of recipes")
            for name, recipe in recipes().items():
                console.print(f"{name:<18} {recipe.title}")
            return 0
        chosen = list(recipes().values()) if self.recipe == "all" else [get_recipe(self.recipe)]
        self._refuse_options(has_runs=any(recipe.parts for recipe in chosen))
        # What is wrong with the last recipe is told before hours are spent on the first.
        names = dict.fromkeys(part.dataset for recipe in chosen for part in recipe.parts)
        datasets = [load(name, self.data) for name in names if name is not None]
        wanted = [recipe.runs(self.budget, seeds=self.seeds, data=self.data) for recipe in chosen]
        for dataset in datasets:
            self.describe_data(dataset, console)
        codes = []
        for recipe, runs in zip(chosen, wanted, strict=True):
            codes.append(self._plan(recipe, runs, console) if self.plan else self._make(recipe, runs, console))
            if codes[-1] == 130:
                break
        return max(codes)

    def _refuse_options(self, *, has_runs: bool) -> None:
        """Options without effect are mistakes."""
        if not has_runs:
            allow(self, {"out", "plan", "plugin"}, f"on {self.recipe}, which has no runs")
        if self.plan:
            training = {"execution", "cluster"}
            allow(self, {entry.name for entry in fields(self)} - training, "on --plan")

    def _make(self, recipe: "Recipe", runs: "Sequence[Sequence[Run[Any]]]", console: Output) -> int:
        from adalin.studies import save_picture

        if recipe.monitored and not self.execution.monitor:
            return replace(self, execution=replace(self.execution, monitor=True))._make(recipe, runs, console)
        results: list[Result] = []
        codes = [0]
        for benchmark, members in _by_benchmark(runs).items():
            console.print(f"{recipe.name}: {benchmark}, {_count(members)}")
            found, code = self.train(members, console)
            results += found
            codes.append(code)
            if code == 130:
                return 130
        if runs and not results:  # what went wrong has been said
            return max(codes)
        if results:
            show(results, console)
        name = f"{recipe.name}-{self.budget}" if results else recipe.name
        if recipe.monitored:
            return max(*codes, self._judge_monitor(runs, name, console))
        paths = save_picture(recipe.figure(runs, results), self.out / "figures", name)
        _judge(recipe, results, console)
        for path in paths:
            console.print(f"picture: {path}", soft_wrap=True)
        return max(codes)

    def _judge_monitor(self, runs: "Sequence[Sequence[Run[Any]]]", name: str, console: Output) -> int:
        """What the monitor said of the runs, against what happened to them."""
        from adalin.data import load
        from adalin.studies import (
            controls,
            save_picture,
            snapshots_of,
            validation,
            validation_figure,
            validation_lines,
            write_validation,
        )

        snapshots = snapshots_of(self.out, chain.from_iterable(runs))
        if not snapshots:
            raise ValueError(f"{self.out} has no looks and probes: delete its runs, or give another --out")
        images = load("mnist", self.data).train_images[:1_200].float() / 255
        found = validation(snapshots, controls(images, seeds=self.seeds))
        folder = self.out / "figures"
        write_validation(found, folder / f"{name}.json")
        for line in validation_lines(found):
            console.print(line, soft_wrap=True, markup=False)
        for path in [folder / f"{name}.json", *save_picture(validation_figure(snapshots), folder, name)]:
            console.print(f"written: {path}", soft_wrap=True)
        return 0

    def _plan(self, recipe: "Recipe", runs: "Sequence[Sequence[Run[Any]]]", console: Output) -> int:
        from adalin._text import duration
        from adalin.executors import plan, read_state

        if not recipe.parts:
            console.print(f"{recipe.name}: no runs, it is drawn at once")
        for benchmark, members in _by_benchmark(runs).items():
            snapshots = {run: read_state(self.out / run.folder, run) for run in members}
            left = [run for run in members if not snapshots[run].finished]
            heading = f"{recipe.name}: {benchmark}, {_count(members)}"
            if not left:
                console.print(f"{heading}: everything was done before")
                continue
            result = plan(left, workers=self.processes, data=self.data, hardware=self.hardware)
            still_to_make = 1 - sum(snapshots[run].steps for run in left) / result.steps
            time, disk = duration(result.seconds * still_to_make), result.disk_bytes / 1e6
            is_begun = still_to_make < 1 or len(left) < len(members)
            unfinished = f", {len(left)} of them unfinished: " if is_begun else ", "
            console.print(f"{heading}{unfinished}about {time} and {disk:.1f} MB")
        return 0


def _count(runs: "Sequence[Run[Any]]") -> str:
    steps = sum(run.total_steps for run in runs)
    return f"{len(runs)} runs of {runs[0].tasks} {runs[0].description.task_name}s, {steps:,} steps"


def _by_benchmark(parts: "Sequence[Sequence[Run[Any]]]") -> "dict[str, list[Run[Any]]]":
    """The runs of all parts, each once."""
    groups: dict[str, dict[Path, Run[Any]]] = {}
    for run in chain(*parts):
        groups.setdefault(run.benchmark, {})[run.folder] = run
    return {benchmark: list(runs.values()) for benchmark, runs in groups.items()}


def _judge(recipe: "Recipe", results: "list[Result]", console: Output) -> None:
    from adalin.studies import compare_all, judge_claims

    for verdict in judge_claims(compare_all(results), recipe.claims):
        console.print(f"{verdict.claim} {verdict}: {verdict.text}")
        for finding in verdict.findings:
            console.print(f"   {finding.outcome}: {finding.statement}: {finding.numbers}")


@dataclass(frozen=True, kw_only=True)
class SweepCommand(Training):
    """Choose learning rate and batch size as the paper does: a grid on seeds 0-2, the best of it on seeds 3-5."""

    benchmark: Positional[str]
    """Name of a benchmark, see `adalin list`."""
    methods: Annotated[tuple[str, ...], Metavar("METHOD")] = ("baseline", "adalin")
    """Methods whose learning rate and batch size are chosen, as in `adalin run`."""
    lr: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    """Learning rates."""
    batch_size: tuple[int, ...] = (16, 32, 64)
    """Batch sizes."""
    search: Literal["grid", "optuna"] = "grid"
    """Way to search: grid, or optuna, which proposes any learning rate between the smallest and the largest; the same
    command on other machines that see the folder joins in."""
    trials: int | None = None
    """Number of points that Optuna proposes for each method, on all machines together; 20 by default."""
    settings: SweepOptions = field(default_factory=SweepOptions)
    network: Annotated[NetworkOptions, HelpGroup("network and protocol")] = field(default_factory=NetworkOptions)

    def _settings(self) -> dict[str, Any]:
        return given(self.settings) | given(self.network)

    def __call__(self, console: Output) -> int:
        self.prepare()
        from adalin.data import load
        from adalin.streams import get_benchmark

        if self.trials is not None and self.search != "optuna":
            raise ValueError("--trials is for --search optuna")

        name = get_benchmark(self.benchmark).dataset
        self.describe_data(None if name is None else load(name, self.data), console)
        if self.search == "optuna":
            return self._search(console)
        from adalin.studies import sweep_runs

        runs = sweep_runs(self.benchmark, self.methods, self.lr, self.batch_size, data=self.data, **self._settings())
        console.print(f"sweep on seeds 0, 1, 2: {_count(runs)}")
        results, code = self.train(runs, console)
        return self._report(runs, results, code, console) if results else code

    def _search(self, console: Output) -> int:
        from adalin.studies import Search

        search = Search(
            self.benchmark,
            self.methods,
            self.lr,
            self.batch_size,
            out=self.execution.sync_to or self.out,
            trials=20 if self.trials is None else self.trials,
            data=self.data,
            **self._settings(),
        )
        codes = [0]
        with search.joined():
            while not search.is_over:
                points = search.ask(self.processes)
                if not points:
                    time.sleep(WAIT_SECONDS)  # others are at work on the last of them; if they die, it is our turn
                    continue
                codes.append(self._try_out(points, search, console))
                if codes[-1] == 130:
                    return 130
            runs = search.complete()
            if not runs:
                raise ValueError(f"all trials have failed; delete {search.folder} to search anew")
            with search.last_step():
                results, code = self.train(runs, console)
                return self._report(runs, results, max(*codes, code), console)

    def _try_out(self, points: "Sequence[Point]", search: "Search", console: Output) -> int:
        """Train what the search asks for; what is not finished goes back to it."""
        runs = search.runs_of(points)
        console.print(f"{len(points)} points on seeds 0, 1, 2: {_count(runs)}")
        try:
            results, code = self.train(runs, console)
        except BaseException:
            search.put_back(points)
            raise
        if code == 130:
            search.put_back(points)
        else:
            search.tell(points, results)
        return code

    def _report(self, runs: "Sequence[StreamRun]", results: "list[Result]", code: int, console: Output) -> int:
        """What is the best, and how good it is on seeds that had no part in choosing it."""
        from adalin.studies import choose, report_runs, sweep_table

        choices = choose(runs, results)
        console.print(sweep_table(choices))
        if code == 130 or any(choice.best is None for choice in choices):
            return code or 1
        chosen = report_runs(self.benchmark, choices, data=self.data, **self._settings())
        console.print(f"the chosen settings on seeds 3, 4, 5: {len(chosen)} runs")
        results, last = self.train(chosen, console)
        if results:
            show(results, console)
        return max(code, last)
