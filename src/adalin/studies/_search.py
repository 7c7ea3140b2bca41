"""Search beyond the grid: Optuna proposes points, in a file that commands on several machines share.

OUT/.search/journal.log       Optuna's journal: one study for each method
            <worker>.worker   touched while that command lives; trials of one that is dead are put back
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from itertools import product
from pathlib import Path
from typing import Any

from adalin.executors import define
from adalin.runs import Result
from adalin.studies._paper import SWEEP_SEEDS
from adalin.studies._sweep import StreamRun, choose

HEARTBEAT_SECONDS = 10.0
"""How often a command shows that it lives."""
SILENT_SECONDS = 60.0
"""Silence after which a command is taken for dead."""


@dataclass(frozen=True)
class Point:
    """A trial of Optuna: one method with one learning rate and batch size, on the seeds that only choose."""

    method: str
    """Text of the method."""
    number: int
    """Number of the trial in the method's study."""
    lr: float
    """Learning rate."""
    batch_size: int
    """Batch size."""


class Search:
    """Trials until there are as many as wanted of each method, whoever makes them.

    Learning rates come from between the smallest and the largest that are given, batch sizes from those given.
    """

    def __init__(
        self,
        benchmark: str,
        methods: Sequence[str],
        lrs: Sequence[float],
        batch_sizes: Sequence[int],
        *,
        out: Path,
        trials: int,
        data: str | Path | None = None,
        **settings: Any,
    ) -> None:
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend
        except ImportError:
            raise ValueError("--search optuna needs Optuna: pip install 'adalin[search]'") from None
        if trials < 1:
            raise ValueError(f"trials must be at least 1, not {trials}")
        for name, values in (("lr", lrs), ("batch-size", batch_sizes)):
            if not values:
                raise ValueError(f"give at least one {name}")
        self._define: Callable[[Point], list[StreamRun]] = lambda point: (
            define(
                benchmark,
                [point.method],
                SWEEP_SEEDS,
                data=data,
                **settings | {"lr": point.lr, "batch_size": point.batch_size},
            ).runs
        )
        lrs, batch_sizes = (min(lrs), max(lrs)), sorted(set(batch_sizes))
        for lr, batch_size in product(lrs, batch_sizes):  # what is wrong with them is reported at once
            chosen = settings | {"lr": lr, "batch_size": batch_size}
            runs = define(benchmark, methods, SWEEP_SEEDS, data=data, **chosen).runs
        self._trials, self.folder = trials, out / ".search"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._space: dict[str, Any] = {
            "lr": optuna.distributions.FloatDistribution(*lrs, log=True),
            "batch_size": optuna.distributions.CategoricalDistribution(batch_sizes),
        }
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(self.folder / "journal.log")))
        # Also where it searches, as Optuna does not let a study's choices change, and on what.
        searched = {
            **dict(sorted(settings.items())),
            "lr": lrs,
            "batch_size": batch_sizes,
            "data": runs[0].settings.data,
        }
        scope = " ".join(f"{name}={value}" for name, value in searched.items() if value is not None)
        self._studies = {
            method: optuna.create_study(
                storage=storage,
                study_name=" ".join((benchmark, method, scope)).strip(),
                load_if_exists=True,
                direction="maximize",
                sampler=optuna.samplers.TPESampler(),
            )
            for method in methods
        }
        self._worker = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"

    @contextmanager
    def joined(self) -> Iterator[None]:
        """While this lasts, others know that this command lives."""
        path = self.folder / f"{self._worker}.worker"
        over = threading.Event()
        path.touch()

        def show_life() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                with suppress(OSError):
                    path.touch()

        thread = threading.Thread(target=show_life, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            path.unlink(missing_ok=True)

    def ask(self, count: int) -> list[Point]:
        """Up to so many points of each method that nobody works on; none if enough are done or being made."""
        points = []
        with self._alone("ask"):  # else two commands take the last trial twice
            for method, study in self._studies.items():
                self._requeue_dead(study)
                running = [trial for trial in self._with_state(method, "RUNNING") if "batch_size" in trial.params]
                others = [trial for trial in running if trial.user_attrs.get("worker") != self._worker]
                theirs = {self._settings(trial) for trial in others}
                taken = len(self._with_state(method, "COMPLETE", "RUNNING", "FAIL"))
                for _ in range(min(count, self._trials - taken)):
                    trial = study.ask(self._space)
                    trial.set_user_attr("worker", self._worker)
                    point = self._point(method, trial)
                    if (point.lr, point.batch_size) in theirs:
                        self._discard(study, point.number)  # its runs are being trained
                    else:
                        points.append(point)
        return points

    def tell(self, points: Sequence[Point], results: Sequence[Result]) -> None:
        """The scores of points; those without one have failed."""
        scores: dict[tuple[str, float, int], float | None] = {}
        for choice in choose(self.runs_of(points), results):
            for found in choice.points:
                config = found.summary.config
                scores[choice.method, config["lr"], config["batch_size"]] = found.score
        for point in points:
            score = scores[self.runs_of([point])[0].method, point.lr, point.batch_size]
            self._end(point, score)

    def put_back(self, points: Sequence[Point]) -> None:
        """Somebody else, or the same command later, is to go on with them."""
        for point in points:
            study = self._studies[point.method]
            self._requeue(study, next(trial for trial in study.trials if trial.number == point.number))

    @property
    def is_over(self) -> bool:
        """Whether all trials are done, those of others too."""
        return all(
            len(self._with_state(method, "COMPLETE", "FAIL")) >= self._trials
            and not self._with_state(method, "RUNNING")  # what was put back may be more than is wanted
            for method in self._studies
        )

    def complete(self) -> list[StreamRun]:
        """The runs of all points that have a score."""
        points = []
        for method in self._studies:
            points += [self._point(method, trial) for trial in self._with_state(method, "COMPLETE")]
        return self.runs_of(points)

    def runs_of(self, points: Sequence[Point]) -> list[StreamRun]:
        """The runs of points on the seeds that only choose; each once, as points may be the same."""
        runs: dict[Path, StreamRun] = {}
        for point in points:
            runs |= {run.folder: run for run in self._define(point)}
        return list(runs.values())

    @contextmanager
    def last_step(self) -> Iterator[None]:
        """One command at a time; the others find that everything is done."""
        with self._alone("last-step"):
            yield

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        with (self.folder / f"{what}.lock").open("w") as file:
            flock(file, LOCK_EX)
            yield

    def _end(self, point: Point, score: float | None) -> None:
        import optuna

        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        with suppress(ValueError, RuntimeError):  # taken for dead and put back: whoever has it now says the same
            self._studies[point.method].tell(point.number, score, state)

    def _requeue_dead(self, study: Any) -> None:
        for trial in study.trials:
            if trial.state.name == "RUNNING" and not self._lives(trial):
                self._requeue(study, trial)

    def _requeue(self, study: Any, trial: Any) -> None:
        """Its runs go on where they were: they have the same folders."""
        with suppress(ValueError, RuntimeError):  # somebody else was faster
            self._discard(study, trial.number)
            study.enqueue_trial(trial.params)

    @staticmethod
    def _discard(study: Any, number: int) -> None:
        """End a trial that does not count."""
        import optuna

        study.set_user_attr(f"put back {number}", True)
        study.tell(number, state=optuna.trial.TrialState.FAIL)

    def _lives(self, trial: Any) -> bool:
        name = trial.user_attrs.get("worker")
        if name is None:  # it has just been asked for, or its worker died at that moment
            begun = trial.datetime_start
            return begun is not None and time.time() - begun.timestamp() < SILENT_SECONDS
        with suppress(OSError):
            return time.time() - (self.folder / f"{name}.worker").stat().st_mtime < SILENT_SECONDS
        return False

    def _with_state(self, method: str, *states: str) -> list[Any]:
        study = self._studies[method]
        put_back = study.user_attrs
        return [
            trial for trial in study.trials if trial.state.name in states and f"put back {trial.number}" not in put_back
        ]

    @classmethod
    def _point(cls, method: str, trial: Any) -> Point:
        lr, batch_size = cls._settings(trial)
        return Point(method, trial.number, lr, batch_size)

    @staticmethod
    def _settings(trial: Any) -> tuple[float, int]:
        """Learning rate, with three digits, and batch size."""
        return float(f"{trial.params['lr']:.3g}"), trial.params["batch_size"]
