"""What runs will cost, from what others like them have cost in the same folder."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from adalin.executors._status import read_state
from adalin.runs import Run, RunFolder


def expected_costs(out: Path, runs: Sequence[Run[Any]]) -> dict[Run[Any], float]:
    """Seconds of one core that each still needs; where nothing has been measured, in proportion to its steps."""
    left, made, seconds = {}, dict[object, int](), dict[object, float]()
    for run in runs:
        steps = read_state(out / run.folder, run).steps
        left[run] = run.total_steps - steps
        cost = RunFolder(out / run.folder).cost() if steps else 0.0
        if cost:
            for kind in _kinds(run):
                made[kind] = made.get(kind, 0) + steps
                seconds[kind] = seconds.get(kind, 0.0) + cost

    def rate(run: Run[Any]) -> float:
        return next((seconds[kind] / made[kind] for kind in _kinds(run) if made.get(kind)), 1.0)

    return {run: left[run] * rate(run) for run in runs}


def _kinds(run: Run[Any]) -> Iterable[object]:
    """Kinds of runs that cost about as much, the most similar first."""
    return (run.setting_folder, (run.benchmark, run.description.network), run.benchmark, "all")
