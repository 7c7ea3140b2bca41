"""reproduce, sweep."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, arg

from adalin.cli._shared import Settings, Training, show

if TYPE_CHECKING:
    from adalin.studies import Recipe
    from adalin.training import AnyRun, Result, Run

WAIT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Reproduce(Training):
    """Make a figure or table of the paper: train what it needs, draw it, judge its claims."""

    recipe: Positional[str | None] = None
    """Its name, see --list; or "all"."""
    list: bool = False
    """Say what there is."""
    budget: Literal["quick", "short", "paper"] = "quick"
    """Quick: the figure's shape, within an hour. Short: the paper's tasks, fewer of them. Paper: all of it."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """Any but 0, 1 and 2, which are those of sweeps."""
    plan: bool = False
    """Only say what is still to do, with the time from a few seconds of training."""

    def __call__(self, console: Console) -> int:
        self.prepare()
        from adalin.data import load
        from adalin.studies import get_recipe, recipes

        if self.list or self.recipe is None:
            for name, recipe in recipes().items():
                console.print(f"{name:<18} {recipe.title}")
            return 0
        chosen = list(recipes().values()) if self.recipe == "all" else [get_recipe(self.recipe)]
        # What is wrong with the last recipe is told before hours are spent on the first.
        names = dict.fromkeys(part.dataset for recipe in chosen for part in recipe.parts)
        datasets = [load(name, self.data) for name in names if name is not None]
        wanted = [recipe.runs(self.budget, seeds=self.seeds, data=self.data) for recipe in chosen]
        for dataset in datasets:
            self.say_data(dataset, console)
        codes = []
        for recipe, runs in zip(chosen, wanted, strict=True):
            codes.append(self._plan(recipe, runs, console) if self.plan else self._make(recipe, runs, console))
            if codes[-1] == 130:
                break
        return max(codes)

    def _make(self, recipe: "Recipe", runs: "Sequence[Sequence[AnyRun]]", console: Console) -> int:
        from adalin.studies import save_picture

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
        paths = save_picture(recipe.figure(runs, results), self.out / "figures", name)
        _judge(recipe, results, console)
        for path in paths:
            console.print(f"picture: {path}", soft_wrap=True)
        return max(codes)

    def _plan(self, recipe: "Recipe", runs: "Sequence[Sequence[AnyRun]]", console: Console) -> int:
        from adalin.data import load
        from adalin.executors._status import look_at
        from adalin.report import duration
        from adalin.training import plan

        if not recipe.parts:
            console.print(f"{recipe.name}: no runs, it is drawn at once")
        for benchmark, members in _by_benchmark(runs).items():
            looks = {run: look_at(self.out / run.folder, run) for run in members}
            left = [run for run in members if not looks[run].finished]
            told = f"{recipe.name}: {benchmark}, {_count(members)}"
            if not left:
                console.print(f"{told}: everything was done before")
                continue
            name = members[0].dataset_name
            dataset = None if name is None else load(name, self.data)
            result = plan(left, dataset, workers=self.processes, hardware=self.hardware)
            still_to_make = 1 - sum(looks[run].steps for run in left) / result.steps
            time, disk = duration(result.seconds * still_to_make), result.disk_bytes / 1e6
            begun = f", {len(left)} of them unfinished: " if still_to_make < 1 or len(left) < len(members) else ", "
            console.print(f"{told}{begun}about {time} and {disk:.1f} MB")
        return 0


def _count(runs: "Sequence[AnyRun]") -> str:
    steps = sum(run.total_steps for run in runs)
    return f"{len(runs)} runs of {runs[0].tasks} {runs[0].task_name}s, {steps:,} steps"


def _by_benchmark(parts: "Sequence[Sequence[AnyRun]]") -> "dict[str, list[AnyRun]]":
    """The runs of all parts, each once."""
    groups: dict[str, dict[Path, AnyRun]] = {}
    for run in (run for part in parts for run in part):
        groups.setdefault(run.benchmark, {})[run.folder] = run
    return {benchmark: list(runs.values()) for benchmark, runs in groups.items()}


def _judge(recipe: "Recipe", results: "list[Result]", console: Console) -> None:
    from adalin.report import summarise_all
    from adalin.studies import judge_claims

    for verdict in judge_claims(summarise_all(results)):
        if verdict.claim in recipe.claims:
            console.print(f"{verdict.claim} {verdict}: {verdict.text}")
            for finding in verdict.findings:
                console.print(f"   {finding.outcome}: {finding.statement}: {finding.numbers}")


@dataclass(frozen=True, kw_only=True)
class Sweep(Settings):
    """Choose learning rate and batch size as the paper does: a grid on seeds 0-2, the best of it on seeds 3-5."""

    benchmark: Annotated[Positional[str], arg(metavar="BENCHMARK")]
    """A benchmark's name: see `adalin list`."""
    methods: tuple[str, ...] = ("baseline", "adalin")
    """As for `adalin run`."""
    lr: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    """Learning rates."""
    batch_size: tuple[int, ...] = (16, 32, 64)
    """Images per step."""
    search: Literal["grid", "optuna"] = "grid"
    """Optuna: points that it proposes, with any learning rate between the smallest and the largest. The same command on
    other machines that see the folder joins in."""
    trials: int = 20
    """How many points Optuna proposes for each method, on all machines together."""

    def __call__(self, console: Console) -> int:
        self.prepare()
        from adalin.data import load
        from adalin.streams import get_benchmark

        name = get_benchmark(self.benchmark).dataset
        self.say_data(None if name is None else load(name, self.data), console)
        if self.search == "optuna":
            return self._search(console)
        from adalin.studies import sweep_runs

        runs = sweep_runs(self.benchmark, self.methods, self.lr, self.batch_size, data=self.data, **self.settings())
        console.print(f"sweep on seeds 0, 1, 2: {_count(runs)}")
        results, code = self.train(runs, console)
        return self._report(runs, results, code, console) if results else code

    def _search(self, console: Console) -> int:
        from adalin.studies import Search

        search = Search(
            self.benchmark,
            self.methods,
            self.lr,
            self.batch_size,
            out=self.sync_to or self.out,
            trials=self.trials,
            data=self.data,
            **self.settings(),
        )
        codes = [0]
        with search.joined():
            while not search.is_over:
                points = search.ask(self.processes)
                if not points:
                    time.sleep(WAIT_SECONDS)  # others are at work on the last of them; if they die, it is our turn
                    continue
                runs = search.runs_of(points)
                console.print(f"{len(points)} points on seeds 0, 1, 2: {_count(runs)}")
                try:
                    results, code = self.train(runs, console)
                except BaseException:
                    search.put_back(points)
                    raise
                codes.append(code)
                if code == 130:
                    search.put_back(points)
                    return code
                search.tell(points, results)
            runs = search.complete()
            if not runs:
                raise ValueError(f"all trials have failed; delete {search.folder} to search anew")
            with search.last_step():
                results, code = self.train(runs, console)
                return self._report(runs, results, max(*codes, code), console)

    def _report(self, runs: "Sequence[Run]", results: "list[Result]", code: int, console: Console) -> int:
        """What is the best, and how good it is on seeds that had no part in choosing it."""
        from adalin.studies import choose, report_runs, sweep_table

        choices = choose(runs, results)
        console.print(sweep_table(choices))
        if code == 130 or any(choice.best is None for choice in choices):
            return code or 1
        chosen = report_runs(self.benchmark, choices, data=self.data, **self.settings())
        console.print(f"the chosen settings on seeds 3, 4, 5: {len(chosen)} runs")
        results, last = self.train(chosen, console)
        if results:
            show(results, console)
        return max(code, last)
