"""SAC with growing replay ratios: the runs of the paper's figure, and what they say of its claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from adalin.report._statistics import Values, bootstrap_mean
from adalin.report._summary import Summary
from adalin.report._table import short_number
from adalin.report._verdict import SMALLER, Outcome, all_of
from adalin.rl import SACRun, define_sac_runs
from adalin.rl._run import STEPS
from adalin.studies._book import LEAST_SEEDS, Book, MissingError
from adalin.studies._checks import Check, within
from adalin.studies._paper import REPORT_SEEDS
from adalin.training import AnyRun

METHODS = ("adalin", "baseline")
ENVIRONMENTS = ("Hopper-v4", "HalfCheetah-v4", "Ant-v4")
RATIOS = (1, 2, 4)
LAST = 0.2
"""Returns are compared over the last fifth of the periods."""
LEAST_STEPS = 100_000
"""Before that agents learn their first steps, and nothing can be lost."""
NOTICEABLE_SHARE = 0.05
"""A gap that grows by less than this share of ReLU's return does not grow."""

BUDGETS: Mapping[str, Mapping[str, Any]] = {
    "quick": {"steps": 2_000, "period": 250, "learning_starts": 500, "eval_episodes": 1},
    "short": {"steps": 100_000},
    "paper": {"steps": STEPS},
}
SHORT = {"environments": ("Hopper-v4", "HalfCheetah-v4"), "ratios": (1, 4)}
"""What of the figure two cores can do in an afternoon."""


@dataclass(frozen=True)
class SACPart:
    """ReLU and AdaLin in an environment with a replay ratio: the runs of one panel."""

    environment: str
    replay_ratio: int
    methods: tuple[str, ...] = ("baseline", "adalin")

    dataset: ClassVar[str | None] = None

    @property
    def benchmark(self) -> str:
        return f"sac-{self.environment}"

    @property
    def title(self) -> str:
        """Of the panel."""
        return f"{self.environment}, replay ratio {self.replay_ratio}"

    def runs(self, budget: str, seeds: Sequence[int], data: str | Path | None) -> list[SACRun]:
        """None if the budget does without this panel."""
        if not self._is_in(budget):
            return []
        settings = {**BUDGETS[budget], "replay_ratio": self.replay_ratio}
        return define_sac_runs(self.environment, self.methods, seeds, **settings)

    def examples(self, budget: str) -> list[AnyRun]:
        """One run of each method, as if there were no simulator."""
        settings = {name: value for name, value in BUDGETS[budget].items() if name != "steps"}
        tasks = BUDGETS[budget]["steps"] // settings.get("period", SACRun.period)
        shared = {"benchmark": self.benchmark, "tasks": tasks, "replay_ratio": self.replay_ratio, **settings}
        return [SACRun(method=method, seed=REPORT_SEEDS[0], **shared) for method in self.methods if self._is_in(budget)]

    def _is_in(self, budget: str) -> bool:
        is_short = self.environment in SHORT["environments"] and self.replay_ratio in SHORT["ratios"]
        return is_short or budget != "short"


def sac_parts() -> tuple[SACPart, ...]:
    """A panel for each environment and ratio."""
    return tuple(SACPart(environment, ratio) for environment in ENVIRONMENTS for ratio in RATIOS)


@dataclass(frozen=True)
class GapGrows(Check):
    """The return of AdaLin minus that of ReLU is larger with each larger replay ratio."""

    environment: str

    @property
    def statement(self) -> str:
        return f"the return of adalin minus that of baseline grows with the replay ratio in {self.environment}"

    def measure(self, book: Book) -> tuple[Outcome, str]:
        found = _find(book.sac, self.environment)
        if len(found) < 2:
            raise MissingError(f"no runs of adalin and baseline with two replay ratios in {self.environment}")
        seeds = sorted(set.intersection(*(set(one.seeds) for pair in found.values() for one in pair)))
        used = [result for pair in found.values() for one in pair for result in one.results if result.run.seed in seeds]
        if diverged := sum(result.state == "diverged" for result in used):
            raise MissingError(f"{diverged} of {len(used)} runs diverged in {self.environment}: they have no return")
        if len(seeds) < LEAST_SEEDS:
            raise MissingError(
                f"{len(seeds)} seeds for all replay ratios in {self.environment}; {LEAST_SEEDS} are needed"
            )
        if not (periods := _periods(found)):
            raise MissingError(f"no period is over yet in {self.environment}")
        ratios = sorted(found)
        gaps = {
            ratio: _last_return(adalin, seeds, periods) - _last_return(baseline, seeds, periods)
            for ratio, (adalin, baseline) in found.items()
        }
        growths = [bootstrap_mean(gaps[larger] - gaps[smaller]) for smaller, larger in pairwise(ratios)]
        scales = [abs(_last_return(found[larger][1], seeds, periods).mean()) for larger in ratios[1:]]
        outcome = all_of(
            within(growth, low=NOTICEABLE_SHARE * scale) for growth, scale in zip(growths, scales, strict=True)
        )
        steps = periods * SACRun.period  # `_find` takes no other
        less = [f"{steps:,} of {STEPS:,} steps"] if steps < STEPS else []
        less += [f"replay ratios {', '.join(map(str, ratios))}"] if tuple(ratios) != RATIOS else []
        if steps < LEAST_STEPS or (less and outcome == "does not hold"):
            outcome = "undecided"  # it may come later
        told = "; ".join(f"gap {short_number(gaps[ratio].mean())} with replay ratio {ratio}" for ratio in ratios)
        grown = ", ".join(f"{short_number(g.value)} [{g.low:,.0f}, {g.high:,.0f}]" for g in growths)
        notes = [f"{len(seeds)} seeds ({', '.join(map(str, seeds))}), by chance all grow once in {2 ** len(seeds)}"]
        notes += [f"{LEAST_STEPS:,} steps are needed"] if steps < LEAST_STEPS else []
        notes += [f"{SMALLER}: {', '.join(less)}"] if less else []
        return outcome, "; ".join((told, f"grows by {grown}", *notes))


def _find(summaries: Sequence[Summary], environment: str) -> dict[int, tuple[Summary, Summary]]:
    """AdaLin and baseline by replay ratio, with one simulator and the most steps; all else as in the paper."""
    groups: dict[str | None, dict[int, dict[str, Summary]]] = {}
    papers = {name: value for name, value in SACRun.defaults().items() if name not in ("replay_ratio", "simulator")}
    for summary in summaries:
        run = summary.run
        assert isinstance(run, SACRun)
        config = run.config()
        is_papers = run.method in METHODS and all(config[name] == papers[name] for name in papers)
        if run.env == environment and is_papers:
            group = groups.setdefault(run.simulator, {}).setdefault(run.replay_ratio, {})
            group.setdefault(run.method, summary)  # of the seeds that results are reported on, which come first
    pairs = [
        {ratio: (own["adalin"], own["baseline"]) for ratio, own in group.items() if len(own) == 2}
        for group in groups.values()
    ]
    return max(pairs, key=lambda found: (len(found), _periods(found)), default={})


def _periods(found: Mapping[int, tuple[Summary, Summary]]) -> int:
    return min((one.tasks for pair in found.values() for one in pair), default=0)


def _last_return(summary: Summary, seeds: Sequence[int], periods: int) -> Values:
    """Of each seed, the mean return over the last periods."""
    lines = [summary.seeds.index(seed) for seed in seeds]
    values = summary.values()[lines, :periods]
    means: Values = np.nanmean(values[:, -max(1, round(LAST * periods)) :], axis=1)
    return means
