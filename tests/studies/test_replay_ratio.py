from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from adalin.report import summarise
from adalin.runs import Result, read_run
from adalin.studies import get_recipe, judge_claims
from adalin.studies._replay_ratio import ENVIRONMENTS, STEPS
from made_results import result_of

PERIODS = 20


def agents(method: str, ratio: int, ends: Sequence[float], *, periods: int = PERIODS, **settings: Any) -> list[Result]:
    """Runs whose return grows from 0 to a value for each seed."""
    results = []
    for seed, end in enumerate(ends, 3):
        shared = {"benchmark": "sac-Hopper-v4", "tasks": PERIODS, "simulator": "gymnasium 1, mujoco 3", **settings}
        run = read_run({"method": method, "seed": seed, "replay_ratio": ratio, **shared})
        returns = np.linspace(0, end, periods)
        results.append(result_of(run, [{"task": task, "episode_return": value} for task, value in enumerate(returns)]))
    return results


def finding_of(*groups: list[Result]) -> tuple[str, str]:
    summaries = summarise([result for group in groups for result in group])
    verdict = next(one for one in judge_claims(summaries) if one.claim == "C11")
    hopper = verdict.findings[ENVIRONMENTS.index("Hopper-v4")]
    return hopper.outcome, hopper.numbers


@pytest.mark.parametrize(
    ("largest", "outcome"),
    [((1900, 2000, 2100), "holds"), ((900, 1000, 1100), "undecided"), ((100, 1000, 3000), "undecided")],
)
def test_the_claim_holds_if_the_gap_certainly_grows(largest, outcome):
    found, numbers = finding_of(
        agents("baseline", 1, (1000, 1010, 990)),
        agents("adalin", 1, (1100, 1110, 1090)),
        agents("baseline", 4, (1000, 1010, 990)),
        agents("adalin", 4, largest),
    )
    assert found == outcome
    assert f"{PERIODS * 5_000:,} of {STEPS:,} steps" in numbers
    assert "replay ratios 1, 4" in numbers
    assert "3 seeds (3, 4, 5)" in numbers


def test_the_steps_do_not_depend_on_which_ratio_is_found_first():
    groups = [agents(method, ratio, (100, 110)) for ratio in (4, 1) for method in ("baseline", "adalin")]
    assert f"{PERIODS * 5_000:,} of {STEPS:,} steps" in finding_of(*groups)[1]


def test_runs_that_diverged_have_no_return_and_no_verdict():
    groups = [agents(method, ratio, (100, 110)) for ratio in (1, 4) for method in ("baseline", "adalin")]
    broken = agents("baseline", 4, (100, 110), periods=3)
    groups[2] = [replace(result, position=replace(result.position, state="diverged")) for result in broken]
    assert finding_of(*groups) == ("undecided", "2 of 8 runs diverged in Hopper-v4: they have no return")


def test_a_run_that_has_not_begun_does_not_keep_the_others_from_being_judged():
    groups = [agents(method, ratio, (100, 110)) for ratio in (1, 4) for method in ("baseline", "adalin")]
    groups[3] += agents("adalin", 4, (0, 0, 0), periods=0)[2:]
    assert "2 seeds (3, 4)" in finding_of(*groups)[1]


def test_every_step_of_the_ratio_counts():
    growing = [agents("adalin", ratio, (gap, gap + 10)) for ratio, gap in ((1, 1000), (2, 500), (4, 3000))]
    baselines = [agents("baseline", ratio, (100, 110)) for ratio in (1, 2, 4)]
    assert finding_of(*growing, *baselines)[0] == "undecided"


def test_a_gap_that_shrinks_at_the_papers_scale_contradicts_the_claim(monkeypatch):
    monkeypatch.setattr("adalin.studies._replay_ratio.STEPS", PERIODS * 5_000)
    gaps = {1: 900, 2: 500, 4: 100}
    groups = [agents("adalin", ratio, (1000 + gap, 1010 + gap)) for ratio, gap in gaps.items()]
    groups += [agents("baseline", ratio, (1000, 1010)) for ratio in gaps]
    outcome, numbers = finding_of(*groups)
    assert outcome == "does not hold"
    assert "not the paper's scale" not in numbers
    groups[1] = agents("adalin", 2, (3000, 3010))  # larger, and then smaller
    assert finding_of(*groups)[0] == "does not hold"


def test_runs_of_two_simulators_or_with_other_settings_are_not_pooled():
    first = [agents(method, 1, (100, 110)) for method in ("baseline", "adalin")]
    for changed in ({"simulator": "gymnasium 1, mujoco 4"}, {"batch_size": 64}):
        second = [agents(method, 4, (100, 110), **changed) for method in ("baseline", "adalin")]
        assert "no runs of adalin and baseline with two replay ratios" in finding_of(*first, *second)[1]


def test_one_seed_does_not_tell():
    groups = [agents(method, ratio, (100,)) for method in ("baseline", "adalin") for ratio in (1, 4)]
    assert finding_of(*groups)[1].startswith("1 seeds")


def test_the_figure_has_a_panel_for_each_environment_and_ratio_that_the_budget_asks_for():
    recipe = get_recipe("replay-ratio")
    counts = {budget: [len(part) for part in recipe.runs(budget)] for budget in ("quick", "short", "paper")}
    assert counts["quick"] == counts["paper"] == [6] * 9
    assert counts["short"] == [6, 0, 6, 6, 0, 6, 0, 0, 0]
    runs = recipe.runs("short")
    assert {run.total_steps // run.settings.replay_ratio for part in runs for run in part} == {100_000}
    figure = recipe.figure(runs, agents("adalin", 4, (10, 20)))
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    assert titles == [f"{name}, replay ratio {ratio}" for name in ("Hopper-v4", "HalfCheetah-v4") for ratio in (1, 4)]


def test_agents_that_have_hardly_learned_decide_nothing():
    ends = {("baseline", 1): 100, ("adalin", 1): 110, ("baseline", 4): 100, ("adalin", 4): 900}
    groups = [agents(method, ratio, (end, end + 1), periods=5) for (method, ratio), end in ends.items()]
    outcome, numbers = finding_of(*groups)
    assert outcome == "undecided"
    assert "grows by 790" in numbers, "the numbers are told all the same"
    assert "100,000 steps are needed" in numbers
    assert "25,000 of 1,000,000 steps" in numbers


def test_a_gap_that_hardly_grows_does_not_grow():
    ends = {("baseline", 1): 1000, ("adalin", 1): 1100, ("baseline", 4): 1000, ("adalin", 4): 1110}
    groups = [agents(method, ratio, (end, end + 1)) for (method, ratio), end in ends.items()]
    assert finding_of(*groups)[0] == "undecided"
