"""Where a run goes on."""

from collections.abc import Callable
from typing import Any

from adalin.training._any_run import ENDED, AnyRun, Report, read_run
from adalin.training._run_folder import Checkpoint, RunFolder, RunFolderError

START: dict[str, Any] = {"task": 0, "step": 0}


def wanted_run(folder: RunFolder) -> AnyRun:
    """The run of a folder, with as many tasks as were ever asked for."""
    manifest = folder.manifest()
    starts = (manifest, *manifest.get("resumed", ()))
    return read_run({**folder.config(), "tasks": max(start["tasks"] for start in starts if "tasks" in start)})


def last_checkpoint(
    folder: RunFolder, warn: Callable[[str], None] = lambda message: None
) -> tuple[Checkpoint | None, list[dict[str, Any]]]:
    """Where a run goes on, None if it is new, and its rows; raises RunFolderError if it is damaged and cannot go on."""
    checkpoint, rows = folder.load(warn), folder.rows()
    if checkpoint is not None and len(rows) < (task := checkpoint.position["task"]):
        raise RunFolderError(
            f"{folder.path} has {len(rows)} rows, but its checkpoint comes after {task} tasks; "
            "restore rows.jsonl or delete the folder to start the run anew"
        )
    return checkpoint, rows


def resume(run: AnyRun, folder: RunFolder, report: Report) -> tuple[Checkpoint, bool]:
    """The last checkpoint, without tensors if there is none yet, and whether there is something left to do.

    Rows of tasks after it are dropped: they are made again.
    """
    found, rows = last_checkpoint(folder, lambda message: report("warning", run, {"message": message}))
    checkpoint = found or Checkpoint({}, START)
    if rows and found is None:
        message = f"{folder.path} has {len(rows)} rows but no checkpoint: the run starts anew"
        report("warning", run, {"message": message})
    folder.trim_rows(checkpoint.position["task"])
    report("resumed", run, {"steps": run.steps_at(checkpoint.position)})
    if ended := (state := run.state_at(checkpoint.position)) in ENDED:
        report(state, run, checkpoint.position)
    return checkpoint, not ended
