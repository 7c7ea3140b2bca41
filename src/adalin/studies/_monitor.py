"""Is the monitor right? What it says at the end of each task against what happens in the next one.

Thresholds and what is held out are fixed here: they were committed before any held-out run was read.
"""

import copy
import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from adalin._seeds import generator, seeded
from adalin.monitor import Look, ProbeResult, diagnose, examine_task
from adalin.report import BLUE, GREY, VERMILION
from adalin.runs import Run, RunFolder

VALIDATED_METHODS = ("baseline", "tanh", "gelu", "adalin", "crelu", "l2")
"""Methods whose runs may be looked at while thresholds are chosen."""
HELD_OUT_METHODS = ("silu", "adam", "shrink-perturb")
VALIDATED_BENCHMARKS = ("random-label-mnist", "shuffled-label-cifar10")
HELD_OUT_BENCHMARKS = ("random-label-cifar10",)
LOST = 0.8
"""A network has lost plasticity if the next task's accuracy, above chance, is below this share of its first task's."""

PREDICTORS: Mapping[str, int] = {
    "probe": -1,
    "today's accuracy": -1,
    "gradient_dormant": 1,
    "dead": 1,
    "dormant": 1,
    "quiet": 1,
    "saturated": 1,
    "linear": 1,
    "duplicate": 1,
    "sign_entropy": -1,
    "rank_share": -1,
    "norm": 1,
    "gradient": -1,
}
"""Numbers that are compared, and whether a high (1) or a low (-1) one speaks for a loss: fixed beforehand."""


@dataclass(frozen=True)
class MonitorSnapshot:
    """One network at the end of one task, and how it did in the next."""

    benchmark: str
    """Name of the benchmark."""
    method: str
    """Method."""
    seed: int
    """Seed."""
    task: int
    """Task that has just ended."""
    held_out: bool
    """Whether it had no part in choosing thresholds."""
    numbers: Mapping[str, float | None]
    """Predictors by name."""
    state: str
    """State of the verdict."""
    relative: float
    """Next task's accuracy above chance, as a share of the first task's."""

    @property
    def lost(self) -> bool:
        """Whether plasticity is lost."""
        return self.relative < LOST


@dataclass(frozen=True)
class Predictor:
    """How well one number tells lost networks from others."""

    name: str
    """Name of the number."""
    auc: float | None
    """Area under the ROC curve; None without a lost or without another network."""
    rank_correlation: float | None
    """Spearman's correlation with the next task's relative accuracy, its sign turned so that 1 is best."""
    count: int
    """Number of snapshots that have it."""


def snapshots_of(out: Path, runs: Iterable[Run[Any]]) -> list[MonitorSnapshot]:
    """What the monitor saw in the folders of runs, wherever the next task is known too."""
    found = []
    for run in runs:
        folder = RunFolder(out / run.folder)
        if not folder.exists:
            continue
        rows, seen = folder.rows(), folder.monitor_rows()
        description = run.description
        for row, later in pairwise(rows):
            if row["task"] in seen:
                found.append(_snapshot(run, description.benchmark, description.chance, rows[0], row, later, seen))
    return found


def _snapshot(
    run: Run[Any],
    benchmark: str,
    chance: float,
    first: Mapping[str, Any],
    row: Mapping[str, Any],
    later: Mapping[str, Any],
    seen: Mapping[int, Mapping[str, Any]],
) -> MonitorSnapshot:
    own = seen[row["task"]]
    reached = max(first["online_accuracy"] - chance, 1e-6)
    numbers = dict(own["look"]) | {"probe": own["probe"]["ratio"]}
    numbers["today's accuracy"] = (row["online_accuracy"] - chance) / reached
    held_out = run.method in HELD_OUT_METHODS or benchmark in HELD_OUT_BENCHMARKS
    return MonitorSnapshot(
        benchmark=benchmark,
        method=run.method,
        seed=run.seed,
        task=row["task"],
        held_out=held_out,
        numbers={name: numbers.get(name) for name in PREDICTORS},
        state=state_of(own),
        relative=(later["online_accuracy"] - chance) / reached,
    )


def state_of(seen: Mapping[str, Any]) -> str:
    """The verdict on what was written of a network."""
    probe = seen["probe"]
    result = ProbeResult(probe["aged"], probe["fresh"], probe["steps"], 0.0, "")
    return diagnose(Look("", 0, 0.0, seen["layers"], {}, {}), None, result).state


def judge(snapshots: Sequence[MonitorSnapshot]) -> list[Predictor]:
    """AUC and rank correlation of every number."""
    found = []
    for name, sign in PREDICTORS.items():
        pairs = [(sign * value, s) for s in snapshots if (value := s.numbers[name]) is not None]
        lost = [value for value, snapshot in pairs if snapshot.lost]
        fine = [value for value, snapshot in pairs if not snapshot.lost]
        relative = [-snapshot.relative for _, snapshot in pairs]
        correlation = _spearman([value for value, _ in pairs], relative)
        found.append(Predictor(name, _auc(lost, fine), correlation, len(pairs)))
    return found


def _auc(lost: Sequence[float], fine: Sequence[float]) -> float | None:
    if not lost or not fine:
        return None
    a, b = torch.tensor(lost, dtype=torch.float64), torch.tensor(fine, dtype=torch.float64)
    return ((a[:, None] > b).double() + 0.5 * (a[:, None] == b).double()).mean().item()


def _spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return statistics.correlation(_ranks(x), _ranks(y))


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0; equal values share their mean."""
    order = sorted(values)
    first = {value: order.index(value) for value in set(values)}
    count = {value: order.count(value) for value in set(values)}
    return [first[value] + (count[value] - 1) / 2 for value in values]


def verdict_counts(snapshots: Sequence[MonitorSnapshot]) -> dict[str, dict[str, int]]:
    """How often each state was found for networks that had lost plasticity, and for others."""
    counts: dict[str, dict[str, int]] = {"lost": {}, "not lost": {}}
    for snapshot in snapshots:
        group = counts["lost" if snapshot.lost else "not lost"]
        group[snapshot.state] = group.get(snapshot.state, 0) + 1
    return counts


# ---------------------------------------------------------------------- controls


@dataclass(frozen=True)
class Control:
    """A network made by hand, what the monitor says of it, and how it then learns."""

    name: str
    """Way it was made."""
    seed: int
    """Seed."""
    state: str
    """State of the verdict."""
    probe: float
    """Ratio of the probe."""
    gradient_dormant: float
    """Share of units that get next to no gradient."""
    dead: float
    """Share of dead units."""
    relative: float
    """Accuracy above chance in a new task, as a share of a fresh network's."""


def control_network() -> nn.Module:
    """The perceptron of the controls."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    )


def _kill(share: float) -> Callable[[Any], None]:
    def harm(model: Any) -> None:
        for layer in (model[1], model[3]):
            layer.bias[: int(share * len(layer.bias))] -= 100.0

    return harm


def _shrink(model: Any) -> None:
    for parameter in model.parameters():
        parameter.mul_(0.1)


def _always_on(model: Any) -> None:
    model[1].bias.add_(30.0)
    model[3].weight.abs_()


def _nothing(model: Any) -> None:
    return


CONTROLS: Mapping[str, tuple[bool, Callable[[Any], None]]] = {
    "fresh": (False, _nothing),
    "trained on one task": (True, _nothing),
    "trained, then 40 % of units killed": (True, _kill(0.4)),
    "fresh, half of units killed": (False, _kill(0.5)),
    "fresh, four fifths killed": (False, _kill(0.8)),
    "fresh, weights times 0.1": (False, _shrink),
    "fresh, all units always on": (False, _always_on),
}
"""Networks made by hand: whether they are trained on random labels first, and what is done to them then."""


def controls(images: Tensor, *, seeds: Sequence[int], steps: int = 3_000) -> list[Control]:
    """Make each network, examine it, and train it on new random labels."""
    found = []
    for seed in seeds:
        reference = _accuracy(_built(seed, 100), images, seed, "next", steps)
        for name, (is_trained, harm) in CONTROLS.items():
            model = _built(seed, 0)
            if is_trained:
                _accuracy(model, images, seed, "first", steps)
            with torch.no_grad():
                harm(model)
            labels = torch.randint(10, (len(images),), generator=generator(seed, "labels", "next"))
            fresh = iter(range(1, 100))
            seen = examine_task(model, images, labels, fresh=lambda s=seed, f=fresh: _built(s, next(f)))  # type: ignore[misc]
            reached = _accuracy(copy.deepcopy(model), images, seed, "next", steps)
            look = seen["look"]
            relative = (reached - 0.1) / (reference - 0.1)
            shares = look["gradient_dormant"], look["dead"]
            found.append(Control(name, seed, state_of(seen), seen["probe"]["ratio"], *shares, relative))
    return found


def _built(seed: int, number: int) -> nn.Module:
    with seeded(seed, "control", number):
        return control_network()


def _accuracy(model: nn.Module, images: Tensor, seed: int, task: str, steps: int) -> float:
    """Train on random labels of a task with SGD; returns the share of right answers on the way."""
    labels = torch.randint(10, (len(images),), generator=generator(seed, "labels", task))
    order = generator(seed, "order", task)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    right = torch.zeros(())
    for _ in range(steps):
        chosen = torch.randint(len(images), (16,), generator=order)
        outputs = model(images[chosen])
        loss = nn.functional.cross_entropy(outputs, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (outputs.argmax(1) == labels[chosen]).float().mean()
    return right.item() / steps


# ---------------------------------------------------------------------- report


def validation(snapshots: Sequence[MonitorSnapshot], made: Sequence[Control] = ()) -> dict[str, Any]:
    """All that is reported, as plain values."""
    parts = {
        "all": list(snapshots),
        "choosing": [s for s in snapshots if not s.held_out],
        "held out": [s for s in snapshots if s.held_out],
    }
    return {
        "lost below": LOST,
        "held out methods": list(HELD_OUT_METHODS),
        "held out benchmarks": list(HELD_OUT_BENCHMARKS),
        "parts": {
            name: {
                "snapshots": len(part),
                "lost": sum(snapshot.lost for snapshot in part),
                "runs": len({(s.benchmark, s.method, s.seed) for s in part}),
                "predictors": [asdict(predictor) for predictor in judge(part)],
                "verdicts": verdict_counts(part),
            }
            for name, part in parts.items()
        },
        "controls": [asdict(control) for control in made],
        "snapshots": [asdict(snapshot) for snapshot in snapshots],
    }


def write_validation(found: Mapping[str, Any], path: Path) -> None:
    """As JSON, numbers with 4 digits; what is not finite is null."""

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.4g}") if math.isfinite(value) else None
        if isinstance(value, Mapping):
            return {key: short(item) for key, item in value.items()}
        return [short(item) for item in value] if isinstance(value, list | tuple) else value

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(short(found)) + "\n", "utf-8")


def validation_lines(found: Mapping[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    lines = []
    for name, part in found["parts"].items():
        lines += [f"{name}: {part['snapshots']} snapshots of {part['runs']} runs, {part['lost']} lost", ""]
        if part["snapshots"]:
            lines += ["| number | AUC | rank correlation |", "|---|---|---|"]
            shown = sorted(part["predictors"], key=lambda entry: -(entry["auc"] or 0))
            lines += [f"| {e['name']} | {_digits(e['auc'])} | {_digits(e['rank_correlation'])} |" for e in shown]
            for truth, states in part["verdicts"].items():
                counted = ", ".join(f"{state} {count}" for state, count in sorted(states.items()))
                lines += ["", f"verdicts on networks that had {truth}: {counted or 'none'}"]
        lines.append("")
    if found["controls"]:
        lines += ["| made by hand | next task | probe | no gradient | dead | verdict |", "|---|---|---|---|---|---|"]
        for c in found["controls"]:
            numbers = [_digits(c[key]) for key in ("relative", "probe", "gradient_dormant", "dead")]
            lines.append(f"| {c['name']}, seed {c['seed']} | {' | '.join(numbers)} | {c['state']} |")
    return lines


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def validation_figure(snapshots: Sequence[MonitorSnapshot]) -> Figure:
    """The probe, and units without gradient, against the next task's accuracy."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    texts = {"probe": "probe: progress / a fresh network's", "gradient_dormant": "share of units without gradient"}
    for axes, (name, text) in zip(panels, texts.items(), strict=True):
        for held_out, colour, label in ((False, BLUE, "choosing"), (True, VERMILION, "held out")):
            points = [s for s in snapshots if s.held_out == held_out and s.numbers[name] is not None]
            x = [s.numbers[name] for s in points]
            axes.scatter(x, [s.relative for s in points], s=10, color=colour, alpha=0.6, label=label, linewidths=0)
        axes.axhline(LOST, color=GREY, linestyle=":", linewidth=1)
        axes.set_xlabel(text)
    panels[0].axvline(0.8, color=GREY, linestyle=":", linewidth=1)
    panels[0].set_ylabel("next task's accuracy\nabove chance / first task's")
    panels[0].legend(frameon=False)
    return figure
