"""Ray: each job is a task of Ray Core."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from adalin.executors._cluster import Cluster
from adalin.executors._executor import Work
from adalin.executors._job import Job, train_job


@dataclass(eq=False, kw_only=True)
class Ray(Cluster):
    """Tasks with resources. What a lost worker or node takes along Ray starts again elsewhere."""

    name: ClassVar[str] = "ray"
    """Name for `--executor`."""
    address: str | None = None
    """Address of a cluster; else $RAY_ADDRESS, else one is started on this machine."""
    _tasks: dict[Job, Any] = field(default_factory=dict, init=False, repr=False)
    _words: dict[Job, str] = field(default_factory=dict, init=False, repr=False)

    @contextmanager
    def connect(self, work: Work) -> Iterator[None]:
        """Of a cluster that this process is connected to already, nothing is changed."""
        try:
            import ray
        except ImportError:
            raise ValueError("--executor ray needs Ray: pip install 'adalin[ray]'") from None
        ours = not ray.is_initialized()
        if ours:
            address = self.address or os.environ.get("RAY_ADDRESS")
            options: dict[str, Any] = {} if address else {"include_dashboard": False}
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
            except ConnectionError as error:
                raise ValueError(f"there is no Ray at {address}: {str(error).splitlines()[0]}") from None
            except Exception as error:  # Ray has no class for it
                if "timed out during startup" not in str(error):
                    raise
                raise ValueError("Ray did not start within 30 s: is this machine too busy?") from None
        try:
            yield
        finally:
            if ours:
                ray.shutdown()

    @property
    def capacity(self) -> int:
        """As many as the cluster has room for."""
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1)) // self.cpus)

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """A run that has failed alone is not tried again by Ray, but by us."""
        import ray

        task = ray.remote(train_job)
        resources: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        if self.memory is not None:
            resources["memory"] = round(self.memory * 2**30)
        for job in jobs:
            retries = 0 if job.alone else self.retries
            self._tasks[job] = task.options(max_retries=retries, name=f"adalin {job.name}", **resources).remote(
                str(job.path.absolute())
            )
        return [self._tasks[job].task_id().hex() for job in jobs]

    def ended(self, jobs: Sequence[Job]) -> list[Job]:
        """Those whose task has returned, or is lost for good."""
        import ray

        if not jobs:
            return []
        ready, _ = ray.wait([self._tasks[job] for job in jobs], num_returns=len(jobs), timeout=0)
        ended = [job for job in jobs if self._tasks[job] in set(ready)]
        for job in ended:
            try:
                ray.get(self._tasks[job])
            except ray.exceptions.RayError as error:
                self._words[job] = str(error)
        return ended

    def final_output(self, job: Job) -> str:
        """What Ray says of a worker or a node that is gone."""
        return self._words.get(job, "")

    def cancel(self, jobs: Sequence[Job]) -> None:
        """By an interrupt, on which they save."""
        import ray

        for job in jobs:
            ray.cancel(self._tasks[job])
