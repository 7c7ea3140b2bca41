"""Training: the engine, exact checkpoints, and the folder of a run."""

from adalin.training._any_run import AnyRun, read_run
from adalin.training._api import Result, define_runs, find_results, run
from adalin.training._execute import check_workers, execute
from adalin.training._hardware import Hardware
from adalin.training._plan import Plan, plan
from adalin.training._preset import PRESETS, Preset
from adalin.training._run import Run
from adalin.training._run_folder import RunFolder, RunFolderError

__all__ = [
    "PRESETS",
    "AnyRun",
    "Hardware",
    "Plan",
    "Preset",
    "Result",
    "Run",
    "RunFolder",
    "RunFolderError",
    "check_workers",
    "define_runs",
    "execute",
    "find_results",
    "plan",
    "read_run",
    "run",
]
