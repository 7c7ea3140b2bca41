"""Where runs are trained: on this machine, on Slurm or on Ray; and what they are doing, from the folder alone."""

from adalin.executors._cluster import Cluster
from adalin.executors._executor import Executor, Work
from adalin.executors._job import Job, train_job
from adalin.executors._local import Local
from adalin.executors._ray import Ray
from adalin.executors._slurm import Slurm
from adalin.executors._status import RunStatus, Status, StatusReader

__all__ = [
    "Cluster",
    "Executor",
    "Job",
    "Local",
    "Ray",
    "RunStatus",
    "Slurm",
    "Status",
    "StatusReader",
    "Work",
    "train_job",
]
