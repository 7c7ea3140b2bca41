"""SAC with growing replay ratios: the runs of the paper's figure, and what they say of its claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from adalin.executors import define
from adalin.report import Finding, Summary, Values, all_of, short_number, t_interval
from adalin.rl import environment_of
from adalin.runs import Run, kind_of
from adalin.settings import SACSettings
from adalin.studies._checks import Check, seeds_note, within
from adalin.studies._evidence import LEAST_SEEDS, MissingError, PaperRuns, common_seeds, scale_note
from adalin.studies._paper import REPORT_SEEDS

STEPS = SACSettings.steps
"""The paper's."""
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
    """Name of an environment of gymnasium."""
    replay_ratio: int
    """Updates per step in the environment."""
    methods: tuple[str, ...] = ("baseline", "adalin")
    """Methods that are compared."""

    dataset: ClassVar[str | None] = None
    """None: it needs no data set."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return f"sac-{self.environment}"

    @property
    def title(self) -> str:
        """Title of the panel."""
        return f"{self.environment}, replay ratio {self.replay_ratio}"

    def runs(self, budget: str, seeds: Sequence[int], data: str | Path | None) -> list[Run[Any]]:
        """All runs of a budget; none if it does without this panel."""
        if not self._is_in(budget):
            return []
        settings = {**BUDGETS[budget], "replay_ratio": self.replay_ratio}
        return define(self.benchmark, self.methods, seeds, **settings).runs

    def examples(self, budget: str) -> list[Run[Any]]:
        """One run of each method, as if there were no simulator."""
        if not self._is_in(budget):
            return []
        settings = {**BUDGETS[budget], "replay_ratio": self.replay_ratio}
        kind = kind_of(self.benchmark)
        return [kind.example(self.benchmark, method, REPORT_SEEDS[0], **settings) for method in self.methods]

    def _is_in(self, budget: str) -> bool:
        is_short = self.environment in SHORT["environments"] and self.replay_ratio in SHORT["ratios"]
        return is_short or budget != "short"


def sac_parts() -> tuple[SACPart, ...]:
    """A panel for each environment and ratio."""
    return tuple(SACPart(environment, ratio) for environment, ratio in product(ENVIRONMENTS, RATIOS))


@dataclass(frozen=True)
class _Pair:
    """AdaLin and ReLU with one replay ratio."""

    adalin: Summary
    """Runs of AdaLin."""
    baseline: Summary
    """Runs of ReLU."""

    @property
    def both(self) -> tuple[Summary, Summary]:
        """AdaLin, then ReLU."""
        return self.adalin, self.baseline


@dataclass(frozen=True)
class GapGrows(Check):
    """The return of AdaLin minus that of ReLU is larger with each larger replay ratio."""

    environment: str
    """Name of an environment of gymnasium."""

    @property
    def statement(self) -> str:
        return f"the return of adalin minus that of baseline grows with the replay ratio in {self.environment}"

    def measure(self, runs: PaperRuns) -> Finding:
        pairs = _find(runs.sac, self.environment)
        if len(pairs) < 2:
            raise MissingError(f"no runs of adalin and baseline with two replay ratios in {self.environment}")
        summaries = _summaries(pairs)
        seeds = common_seeds([summary.seeds for summary in summaries])
        results = chain.from_iterable(summary.results for summary in summaries)
        used = [result for result in results if result.run.seed in seeds]
        diverged = sum(result.state == "diverged" for result in used)
        if diverged:
            raise MissingError(f"{diverged} of {len(used)} runs diverged in {self.environment}: they have no return")
        if len(seeds) < LEAST_SEEDS:
            raise MissingError(
                f"{len(seeds)} seeds for all replay ratios in {self.environment}; {LEAST_SEEDS} are needed"
            )
        periods = _common_periods(pairs)
        if not periods:
            raise MissingError(f"no period is over yet in {self.environment}")
        ratios = sorted(pairs)
        adalin = {ratio: _last_return(pair.adalin, seeds, periods) for ratio, pair in pairs.items()}
        baseline = {ratio: _last_return(pair.baseline, seeds, periods) for ratio, pair in pairs.items()}
        gaps = {ratio: adalin[ratio] - baseline[ratio] for ratio in ratios}
        growths = {larger: t_interval(gaps[larger] - gaps[smaller]) for smaller, larger in pairwise(ratios)}
        outcome = all_of(
            within(growth, low=NOTICEABLE_SHARE * abs(baseline[ratio].mean())) for ratio, growth in growths.items()
        )
        steps = periods * SACSettings.period  # `_find` takes no other
        smaller = []
        if steps < STEPS:
            smaller.append(f"{steps:,} of {STEPS:,} steps")
        if tuple(ratios) != RATIOS:
            smaller.append(f"replay ratios {', '.join(map(str, ratios))}")
        open_growths = [
            seeds_note(growth, outcome, NOTICEABLE_SHARE * abs(baseline[ratio].mean()))
            for ratio, growth in growths.items()
        ]
        if steps < LEAST_STEPS or (smaller and outcome == "does not hold"):
            outcome = "undecided"  # it may come later
        means = [f"gap {short_number(gaps[ratio].mean())} with replay ratio {ratio}" for ratio in ratios]
        grown = [f"{short_number(each.value)} [{each.low:,.0f}, {each.high:,.0f}]" for each in growths.values()]
        grown[-1] += "".join(open_growths)
        notes = [f"{len(seeds)} seeds ({', '.join(map(str, seeds))})"]
        if steps < LEAST_STEPS:
            notes.append(f"{LEAST_STEPS:,} steps are needed")
        if smaller:
            notes.append(scale_note(smaller))
        numbers = "; ".join((*means, f"grows by {', '.join(grown)}", *notes))
        return Finding(self.statement, outcome, numbers, tuple(smaller))


def _find(summaries: Sequence[Summary], environment: str) -> dict[int, _Pair]:
    """AdaLin and baseline by replay ratio, with one simulator and the most steps; all else as in the paper."""
    simulators: dict[str | None, dict[int, dict[str, Summary]]] = {}
    varied = ("steps", "replay_ratio", "simulator")
    paper_values = {name: value for name, value in SACSettings.defaults().items() if name not in varied}
    for summary in summaries:
        run = summary.run
        settings = run.settings
        assert isinstance(settings, SACSettings)
        config = run.config
        is_papers = run.method in METHODS and all(config[name] == value for name, value in paper_values.items())
        if environment_of(run) == environment and is_papers:
            found = simulators.setdefault(settings.simulator, {}).setdefault(settings.replay_ratio, {})
            found.setdefault(run.method, summary)  # of the seeds that results are reported on, which come first
    candidates = []
    for ratios in simulators.values():
        complete = {ratio: found for ratio, found in ratios.items() if len(found) == len(METHODS)}
        candidates.append({ratio: _Pair(found["adalin"], found["baseline"]) for ratio, found in complete.items()})
    return max(candidates, key=lambda pairs: (len(pairs), _common_periods(pairs)), default={})


def _summaries(pairs: Mapping[int, _Pair]) -> list[Summary]:
    return list(chain.from_iterable(pair.both for pair in pairs.values()))


def _common_periods(pairs: Mapping[int, _Pair]) -> int:
    """Periods that all runs have finished."""
    return min((summary.tasks for summary in _summaries(pairs)), default=0)


def _last_return(summary: Summary, seeds: Sequence[int], periods: int) -> Values:
    """Of each seed, the mean return over the last periods."""
    lines = [summary.seeds.index(seed) for seed in seeds]
    window = max(1, round(LAST * periods))
    means: Values = np.nanmean(summary.values()[lines, periods - window : periods], axis=1)
    return means
