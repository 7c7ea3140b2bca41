"""Jobs on machines that have nothing in common with this one but the folder of the runs."""

import math
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from adalin.executors._costs import expected_costs
from adalin.executors._executor import Attempts, Executor, Work
from adalin.executors._job import Job
from adalin.executors._pool import dearest_first, stop_on_signals
from adalin.executors._status import SavedState, read_state
from adalin.executors._submission import Submission
from adalin.runs import Emit, Ended, Problem, Progress, Resumed, Row, Run

CANCEL_SECONDS = 120.0
"""How long to wait for cancelled jobs to save."""
LAST_LINES = 5
JOBS_PER_WORKER, RUNS_PER_JOB = 4, 4
"""So many jobs at most, and so many runs in each if there are more jobs than workers: enough jobs to balance the load,
few enough that starting them, which takes seconds, does not count."""


@dataclass(eq=False, kw_only=True)
class Cluster(Executor):
    """An engine that starts jobs: three things it must do, submit, watch and cancel. The rest is the same for all."""

    name: ClassVar[str]
    """Name for `--executor`."""
    cpus: int = 1
    """CPUs per job, and processes that train its runs."""
    gpus: int = 0
    """GPUs per job."""
    memory: float | None = None
    """Gigabytes per job."""
    retries: int = 2
    """Number of times that a run which dies is started again before it has got any further."""
    backoff: float = 5.0
    """Seconds before the first retry; twice as many before each later one."""
    poll_seconds: float = 1.0
    """Seconds between looks at jobs and folders; the first are closer together, for jobs that are over in a moment."""

    @abstractmethod
    def connect(self, work: Work) -> AbstractContextManager[None]:
        """Find the engine; raises ValueError if it is not there."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Number of jobs to make of the work if nobody says."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Queue jobs, and return what the engine calls them."""

    @abstractmethod
    def ended(self, jobs: Sequence[Job]) -> list[Job]:
        """Those that are neither waiting nor running, for whatever reason."""

    @abstractmethod
    def final_output(self, job: Job) -> str:
        """What the engine knows of a job's end."""

    @abstractmethod
    def cancel(self, jobs: Sequence[Job]) -> None:
        """Ask jobs to save and end; those that wait never start."""

    def train(self, work: Work, emit: Emit) -> bool:
        """See `Executor.train`."""
        work.check()
        for name, number, least in (("cpus", self.cpus, 1), ("gpus", self.gpus, 0)):
            if number < least:
                raise ValueError(f"{name} must be at least {least}, not {number}")
        if self.memory is not None and not 0 < self.memory < math.inf:
            raise ValueError(f"memory must be a number of gigabytes above 0, not {self.memory}")
        with self.connect(work), stop_on_signals() as signalled:  # Ray handles signals too: the last handler counts
            start, watch = time.monotonic(), _Watch(self, work, emit)

            def stop() -> bool:
                return signalled() or work.session.stop()

            try:
                watch.start()
                while watch.look():
                    if stop():
                        watch.cancel()
                        break
                    time.sleep(min(self.poll_seconds, 0.2 + (time.monotonic() - start) / 10))
            except BaseException:
                watch.abandon()
                raise
            finally:
                watch.submission.end()
            return stop()


class _Watch:
    """The runs of one command, from here to their end."""

    def __init__(self, cluster: Cluster, work: Work, emit: Emit) -> None:
        self._cluster, self._work, self._emit = cluster, work, emit
        self._attempts = Attempts(cluster.retries, cluster.backoff)
        self._going: list[Job] = []
        self._later: dict[Run[Any], float] = {}
        """Times at which runs are tried again, each in a job of its own: one may have taken the others along."""
        self._looks = {run: read_state(work.shared / run.folder, run) for run in work.runs}
        self.submission = Submission.start(work, cluster.name, sum(look.steps for look in self._looks.values()))

    def start(self) -> None:
        """Tell how far the runs are, and submit those that are not finished."""
        cluster, work = self._cluster, self._work
        for run, look in self._looks.items():
            self._emit(Resumed(run, look.steps))
            if look.finished:
                self._emit(Ended(run, look.position))
        unfinished = [run for run, look in self._looks.items() if not look.finished]
        if unfinished:
            workers = work.workers or cluster.capacity
            waiting = dearest_first(unfinished, expected_costs(work.shared, unfinished))
            wanted = max(workers, min(len(waiting) // RUNS_PER_JOB, workers * JOBS_PER_WORKER))
            count = min(wanted, math.ceil(len(waiting) / cluster.cpus))
            self._submit([waiting[job::count] for job in range(count)])

    def look(self) -> bool:
        """Tell what has happened since the last look, start what is due; returns whether there is more to come."""
        ended = self._cluster.ended(self._going)
        for job in self._going:
            for run in job.runs:
                self._read_state(run)
        for job in ended:
            self._going.remove(job)
            self._close(job)
        due = [run for run, when in self._later.items() if when <= time.monotonic()]
        if due:
            self._later = {run: when for run, when in self._later.items() if run not in due}
            try:
                self._submit([[run] for run in due], alone=True)
            except ValueError as error:  # the others have their jobs
                for run in due:
                    self._fail(run, str(error))
        self.submission.heartbeat()
        return bool(self._going or self._later)

    def cancel(self) -> None:
        """End all jobs, and see what they have saved."""
        self._later.clear()
        self._cluster.cancel(self._going)
        deadline = time.monotonic() + CANCEL_SECONDS
        while self._going and time.monotonic() < deadline:
            for job in self._cluster.ended(self._going):
                self._going.remove(job)
                for run in job.runs:
                    self._read_state(run)
            time.sleep(self._cluster.poll_seconds)

    def abandon(self) -> None:
        """End all jobs without waiting for them: those that nobody watches would be in the way of the same command."""
        with suppress(Exception):  # what went wrong before is what counts
            self._cluster.cancel(self._going)

    def _submit(self, groups: Sequence[Sequence[Run[Any]]], *, alone: bool = False) -> None:
        first = len(self.submission.jobs) + 1
        jobs = [
            Job(self.submission.folder / f"job-{number}.json", runs, alone) for number, runs in enumerate(groups, first)
        ]
        for job in jobs:
            job.write(self._work, self._cluster.cpus)
        names = self._cluster.submit(jobs)
        self._going += jobs  # from now on somebody must cancel them, whatever happens here
        for job, name in zip(jobs, names, strict=True):
            entry = {"id": name, "runs": [str(run.folder) for run in job.runs], "log": str(job.log)}
            self.submission.jobs[job.name] = entry
        self.submission.write()

    def _read_state(self, run: Run[Any]) -> None:
        before = self._looks[run]
        look = read_state(self._work.shared / run.folder, run, before)
        if look is before or before.finished:
            return
        # After a resume a few rows are made again: they were reported, and are the same.
        for row in look.rows[len(before.rows) :]:
            self._emit(Row(run, row))
        if look.steps > before.steps:
            self._emit(Progress(run, look.steps - before.steps))
        if look.finished:
            self._emit(Ended(run, look.position))
        rows, steps = max(before.rows, look.rows, key=len), max(before.steps, look.steps)
        self._looks[run] = SavedState(rows, steps, look.state, look.seal, look.position)

    def _close(self, job: Job) -> None:
        errors = job.errors()
        again: dict[Run[Any], float] = {}
        for run in job.runs:
            if self._looks[run].finished:
                continue
            error: dict[str, Any] = errors.get(str(run.folder), {"cause": "death"})
            if "cause" not in error:
                self._fail(run, error["message"])
                continue
            count = self._attempts.fail(run, self._looks[run].steps)
            if self._attempts.over(count):
                words = error.get("message") or self._final_output(job)
                self._fail(run, f"{run.folder} did not get further in {count} attempts: {words}")
            else:
                again[run] = self._attempts.pause(count)
        if again:
            self._later |= {run: time.monotonic() + pause for run, pause in again.items()}
            name, pause = self.submission.jobs[job.name]["id"], max(again.values())
            message = f"job {name} ended before {len(again)} of its runs did; tried again in {pause:.0f} s"
            self._emit(Problem(next(iter(again)), message, is_warning=True))

    def _final_output(self, job: Job) -> str:
        log = job.log.read_text(errors="replace").splitlines() if job.log.exists() else []
        lines = [*log[-LAST_LINES:], *self._cluster.final_output(job).splitlines()[-LAST_LINES:]]
        return "\n  ".join([f"the last lines of {job.log}:", *(lines or ["(it never started)"])])

    def _fail(self, run: Run[Any], message: str) -> None:
        self.submission.failed[str(run.folder)] = message
        self.submission.write()
        self._emit(Problem(run, message))
