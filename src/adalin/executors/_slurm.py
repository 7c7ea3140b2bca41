"""Slurm, through submitit."""

import getpass
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

from adalin.executors._cluster import Cluster
from adalin.executors._executor import Work
from adalin.executors._job import Job, train_job
from adalin.executors._pool import BATCH_SIGNAL
from adalin.executors._submission import Submission

ARRAY = 1_000
"""Jobs in one array; Slurm's own limit is 1,001 unless it is changed."""
PATIENCE_SECONDS = 600.0
"""How long a Slurm that does not answer, as one that is busy or restarted, is asked again."""
REQUEUES = 1_000_000
"""A job may reach its time limit any number of times: it gets further each time."""


@dataclass(eq=False, kw_only=True)
class Slurm(Cluster):
    """Job arrays. Preemption and time limits save and queue the job again; no accounting is needed."""

    name: ClassVar[str] = "slurm"
    """Name for `--executor`."""
    partition: str | None = None
    """Partition of Slurm; None for the default one."""
    minutes: int = 240
    """Time limit of a job."""
    warn_seconds: int = 90
    """Time between the signal to save and the time limit of a job."""
    poll_seconds: float = 2.0
    """Seconds between looks at jobs and folders."""
    _ids: dict[Job, str] = field(default_factory=dict, init=False, repr=False)
    _answered: float = field(default=0.0, init=False, repr=False)
    _folder: Path = field(default=Path(), init=False, repr=False)

    @contextmanager
    def connect(self, work: Work) -> Iterator[None]:
        """Also cancels jobs with the same runs of a command that was killed, which would be in the way of ours."""
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise ValueError("--executor slurm needs submitit: pip install 'adalin[slurm]'") from None
        queued, ours = self._queued(), {str(run.folder) for run in work.runs}
        for submission in Submission.read_all(work.shared):
            if submission.executor == self.name and not submission.over and submission.silent:
                left = [job for job in submission.jobs.values() if job["id"] in queued]
                in_the_way = [job["id"] for job in left if not ours.isdisjoint(job["runs"])]
                if in_the_way:
                    _command("scancel", *in_the_way)
                if len(in_the_way) == len(left):
                    submission.end()
        self._folder = work.shared.absolute() / ".jobs" / "slurm"
        yield

    @property
    def capacity(self) -> int:
        """Nobody knows; enough to be of use, few enough that starting them does not count."""
        return 32

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """As arrays."""
        import submitit

        executor = submitit.SlurmExecutor(self._folder, max_num_timeout=REQUEUES)
        options: dict[str, Any] = {
            "job_name": "adalin",
            "time": self.minutes,
            "cpus_per_task": self.cpus,
            "signal_delay_s": self.warn_seconds,
            "array_parallelism": ARRAY,
        }
        optional = {
            "partition": self.partition,
            "gpus_per_node": self.gpus or None,
            "mem": None if self.memory is None else f"{round(self.memory * 1024)}M",
        }
        executor.update_parameters(**options, **{name: value for name, value in optional.items() if value is not None})
        task = SlurmTask()
        for start in range(0, len(jobs), ARRAY):
            part = jobs[start : start + ARRAY]
            try:
                with redirect_stderr(StringIO()):  # what sbatch says is in the error
                    queued = executor.map_array(task, [str(job.path.absolute()) for job in part])
            except (subprocess.CalledProcessError, submitit.core.utils.FailedJobError) as error:
                self.cancel(jobs[:start])
                reason = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
                raise ValueError(f"Slurm refuses the jobs: {reason.removeprefix('sbatch: error: ')}") from error
            self._ids |= {job: handle.job_id for job, handle in zip(part, queued, strict=True)}
        return [self._ids[job] for job in jobs]

    def ended(self, jobs: Sequence[Job]) -> list[Job]:
        """Those that have left the queue; one that was requeued has not."""
        try:
            queued = self._queued()
        except ValueError:
            if time.monotonic() - self._answered > PATIENCE_SECONDS:
                raise
            return []
        return [job for job in jobs if self._ids[job] not in queued]

    def final_output(self, job: Job) -> str:
        """The end of what it wrote to stderr, where Slurm says why it killed it."""
        name = self._ids[job]
        path = self._folder / f"{name}_0_log.err"
        return path.read_text(errors="replace") if path.exists() else ""

    def cancel(self, jobs: Sequence[Job]) -> None:
        """By SIGTERM, on which they save."""
        if jobs:
            _command("scancel", *(self._ids[job] for job in jobs))

    def _queued(self) -> set[str]:
        """Ids of this user's jobs that wait, run, or are about to end."""
        ids = _command("squeue", "--user", getpass.getuser(), "--noheader", "--array", "--format", "%i").split()
        self._answered = time.monotonic()
        return set(ids)


class SlurmTask:
    """What a job does; submitit asks it for a `checkpoint` when the job is to be queued again."""

    def __call__(self, path: str) -> bool:
        """Train the job's runs. When Slurm announces the end, save first, then let submitit queue the job again."""
        queue_again: Any = signal.getsignal(BATCH_SIGNAL)
        announced: list[int] = []
        signal.signal(BATCH_SIGNAL, lambda number, frame: announced.append(number))
        stopped = train_job(path, stop=lambda: bool(announced))
        if announced and stopped:
            queue_again(BATCH_SIGNAL, None)
        return stopped

    def checkpoint(self, path: str) -> Any:
        """The same again: the runs know where they are."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, path)


def _command(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout
    except FileNotFoundError:
        raise ValueError(f"there is no Slurm on this machine: {command[0]} is not found") from None
    except subprocess.CalledProcessError as error:
        raise ValueError(f"Slurm does not answer: {error.stderr.strip()}") from None
