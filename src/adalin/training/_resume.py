"""Where a run goes on."""

from typing import Any

from adalin.training._any_run import AnyRun, Report, read_run
from adalin.training._run_folder import Checkpoint, RunFolder, RunFolderError

START: dict[str, Any] = {"task": 0, "step": 0}


def wanted_run(folder: RunFolder) -> AnyRun:
    """The run of a folder, with as many tasks as were ever asked for."""
    manifest = folder.manifest()
    starts = (manifest, *manifest.get("resumed", ()))
    return read_run({**folder.config(), "tasks": max(start["tasks"] for start in starts if "tasks" in start)})


def resume(run: AnyRun, folder: RunFolder, report: Report) -> tuple[Checkpoint, bool]:
    """The last checkpoint, without tensors if there is none yet, and whether there is something left to do.

    Rows of tasks after it are dropped: they are made again.
    """
    found = folder.load(lambda message: report("warning", run, {"message": message}))
    checkpoint = found or Checkpoint({}, START)
    task, rows = checkpoint.position["task"], len(folder.rows())
    if rows < task:
        raise RunFolderError(missing_rows(folder, rows, checkpoint.position))
    if rows and found is None:
        message = f"{folder.path} has {rows} rows but no checkpoint: the run starts anew"
        report("warning", run, {"message": message})
    folder.trim_rows(task)
    report("resumed", run, {"steps": run.steps_at(checkpoint.position)})
    finished, diverged = task >= run.tasks, checkpoint.position.get("state") == "diverged"
    if finished or diverged:
        report("done" if finished else "diverged", run, checkpoint.position)
    return checkpoint, not (finished or diverged)


def missing_rows(folder: RunFolder, rows: int, position: dict[str, Any]) -> str:
    """What to say of rows that were there once."""
    return (
        f"{folder.path} has {rows} rows, but its checkpoint comes after {position['task']} tasks; "
        "restore rows.jsonl or delete the folder to start the run anew"
    )
