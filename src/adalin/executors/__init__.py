"""Where runs are trained: on this machine, on Slurm or on Ray; and what they are doing, from the folder alone."""

import adalin.rl
import adalin.supervised  # noqa: F401, both are kinds of runs, which are known from here on
from adalin.executors._cluster import Cluster
from adalin.executors._executor import Executor, Work
from adalin.executors._job import Job, train_job
from adalin.executors._load import load_model
from adalin.executors._local import Local
from adalin.executors._plan import Plan, plan
from adalin.executors._pool import check_workers, cores, engine_settings, execute
from adalin.executors._python import check_monitored, define, run
from adalin.executors._ray import Ray
from adalin.executors._slurm import Slurm
from adalin.executors._status import RunStatus, SavedState, Status, StatusReader, read_state

__all__ = [
    "Cluster",
    "Executor",
    "Job",
    "Local",
    "Plan",
    "Ray",
    "RunStatus",
    "SavedState",
    "Slurm",
    "Status",
    "StatusReader",
    "Work",
    "check_monitored",
    "check_workers",
    "cores",
    "define",
    "engine_settings",
    "execute",
    "load_model",
    "plan",
    "read_state",
    "run",
    "train_job",
]
