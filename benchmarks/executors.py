"""What an executor costs beyond training: `python -m benchmarks.executors local|slurm|ray 10 100 1000`.

Queues so many runs of a moment each. Overhead per run is the time of all workers, from the command to its end, less the
time in which runs were trained, divided by the number of runs: starting processes, importing torch, queueing, noticing
that a run is over. It should not grow with the number of runs, and be under 2 % of a run of one minute. Slurm and Ray
are running when the clock starts: those of the machine ($SLURM_CONF, $RAY_ADDRESS), or a Ray that is started for it.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from adalin.executors import Executor, Local, Ray, Slurm, Work
from adalin.runs import RunFolder, Session, ignore, kind_of
from benchmarks._measure import Result, at_most

ALLOWED = 0.02 * 60.0


def measure(name: str, count: int, workers: int) -> Result:
    executors: dict[str, type[Executor]] = {"local": Local, "slurm": Slurm, "ray": Ray}
    settings = {"tasks": 1, "epochs": 1, "images": 16}
    benchmark = "random-label-mnist"
    runs = kind_of(benchmark).define(benchmark, ["adalin"], range(count), data="bundled", **settings).runs
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as out:  # which machines of a cluster may share, unlike /tmp
        start = time.monotonic()
        work = Work(runs=runs, session=Session(out=Path(out), data="bundled"), workers=workers)
        executors[name]().train(work, ignore)
        seconds = (time.monotonic() - start) * workers
        folders = [RunFolder(Path(out) / run.folder) for run in runs]
        assert all(len(folder.rows()) == 1 for folder in folders), "some runs are not finished"
        trained = sum(folder.cost() for folder in folders)
    return at_most(ALLOWED, f"{name}, {count:,} runs", (seconds - trained) / count, "s per run")


@contextmanager
def running_ray(cpus: int) -> Iterator[None]:
    from ray.cluster_utils import Cluster

    if os.environ.get("RAY_ADDRESS"):
        yield
        return
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus, "include_dashboard": False})
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        yield
    finally:
        cluster.shutdown()


def main(name: str, *counts: str) -> None:
    workers = os.cpu_count() or 1
    with running_ray(workers) if name == "ray" else nullcontext():
        for count in counts:
            print(measure(name, int(count), workers), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
