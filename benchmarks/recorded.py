"""Train recorded runs again at reduced length, and compare: `python -m benchmarks.recorded --data DATA`.

One seed of each method, with the recorded settings and fewer tasks. The first tasks of a run do not depend on how many
follow, so their mean should be the recorded mean within the noise between seeds. Runs go on where an earlier call
stopped. The table goes to docs/repeated.md.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import adalin
from adalin.report import read_results
from adalin.runs import Result
from benchmarks._tables import ROOT

PAGE = ROOT / "docs" / "repeated.md"
START, END = "<!-- repeated: python -m benchmarks.recorded -->\n", "<!-- /repeated -->\n"
TASKS = {
    "permuted-mnist": 40,
    "random-label-mnist": 12,
    "random-label-cifar10": 4,
    "shuffled-label-cifar10": 12,
    "class-split-cifar100": 5,
    "class-incremental-cifar100": 2,
}
"""Tasks that are trained again, by benchmark."""
METHODS = ("baseline", "adalin", "adalin-tanh", "crelu", "fourier", "l2", "shrink-perturb")
SETTINGS = ("epochs", "batch_size", "lr", "images", "inputs", "init", "steps", "clip", "model", "preset", "precision")
USUAL = 6.1
"""Of two numbers whose standard deviation three others tell: 2 ** 0.5 times the 97.5 % quantile of Student's t."""
METRICS = ("online_accuracy", "weight_norm", "srank")


@dataclass(frozen=True)
class Distance:
    """How far a run trained again is from the recorded ones."""

    benchmark: str
    method: str
    metric: str
    again: float
    """Mean over the tasks."""
    recorded: float
    """That of the recorded run with the same seed."""
    noise: float
    """Standard deviation of the recorded seeds."""

    @property
    def in_noise(self) -> float:
        """Distance in units of the noise, which three seeds tell roughly."""
        distance = abs(self.again - self.recorded)
        return distance / self.noise if distance else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with MNIST, CIFAR-10 and CIFAR-100")
    parser.add_argument("--out", type=Path, default=Path("runs-again"), help="folder for the runs")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="BENCHMARK")
    chosen = parser.parse_args()
    distances: list[Distance] = []
    for benchmark in chosen.only:
        results, _ = read_results(ROOT / "results" / f"{benchmark}.parquet")
        for method in METHODS:
            recorded = recorded_as_now(results, benchmark, method)
            if recorded:
                distances += trained_again(recorded, benchmark, method, chosen.seed, chosen.data, chosen.out)
                print(line(distances[-len(METRICS) :]), flush=True)
    print(summary(distances))
    before, rest = PAGE.read_text().split(START)
    PAGE.write_text(before + START + "\n" + table(distances) + "\n" + END + rest.split(END)[1])
    print(f"written to docs/{PAGE.name}")


def recorded_as_now(results: Sequence[Result], benchmark: str, method: str) -> list[Result]:
    """The recorded runs of a method that have enough tasks; of several settings those with the default inputs."""
    runs = [result for result in results if result.run.method == method and len(result.rows) >= TASKS[benchmark]]
    return [result for result in runs if result.run.config["inputs"] == "unit"]


def trained_again(
    recorded: Sequence[Result], benchmark: str, method: str, seed: int, data: Path, out: Path
) -> list[Distance]:
    """Distances of one run, for each metric."""
    (same,) = (result for result in recorded if result.run.config["seed"] == seed)
    settings = {name: same.run.config[name] for name in SETTINGS}
    if settings["steps"] is not None:
        del settings["epochs"]
    tasks = TASKS[benchmark]
    (again,) = adalin.run(benchmark, [method], [seed], out=out, data=data, tasks=tasks, **settings)
    distances = []
    for metric in METRICS:
        noise = statistics.stdev(mean(result, metric, tasks) for result in recorded)
        distances.append(
            Distance(benchmark, method, metric, mean(again, metric, tasks), mean(same, metric, tasks), noise)
        )
    return distances


def mean(result: Result, metric: str, tasks: int) -> float:
    return statistics.fmean(row[metric] for row in result.rows[:tasks])


def line(distances: Sequence[Distance]) -> str:
    """A row of the table: each metric's distance in units of noise, and the accuracies themselves."""
    first = distances[0]
    far = " | ".join(f"{own.in_noise:.2f}" for own in distances)
    return (
        f"| {first.benchmark} | {first.method} | {first.again:.4f} | {first.recorded:.4f} | {first.noise:.4f} | {far} |"
    )


def table(distances: Sequence[Distance]) -> str:
    names = " | ".join(name.replace("_", " ") for name in METRICS)
    lines = [
        f"| benchmark | method | online accuracy now | recorded | noise | {names} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [line(distances[i : i + len(METRICS)]) for i in range(0, len(distances), len(METRICS))]
    return "\n".join([*lines, "", summary(distances)]) + "\n"


def summary(distances: Sequence[Distance]) -> str:
    far = sorted(own.in_noise for own in distances)
    near = sum(own <= USUAL for own in far)
    return (
        f"The last three columns are distances in units of the noise: median {statistics.median(far):.2f}, largest "
        f"{far[-1]:.1f}, {near} of {len(far)} at most {USUAL}, within which two different seeds are in 19 cases of 20."
    )


if __name__ == "__main__":
    main()
