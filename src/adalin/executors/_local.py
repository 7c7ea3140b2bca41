"""Processes on this machine."""

import time
from dataclasses import dataclass
from typing import Any

from adalin.executors._costs import expected_costs
from adalin.executors._executor import Attempts, Executor, Work
from adalin.executors._mirror import mirrored
from adalin.executors._status import look_at
from adalin.executors._submission import Submission
from adalin.training import AnyRun, Hardware, execute
from adalin.training._any_run import Report
from adalin.training._execute import cores


@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """One process per core, with one thread each; with one worker, this process."""

    retries: int = 2
    backoff: float = 5.0
    """Seconds before the first retry; twice as many before each later one."""

    def train(self, work: Work, report: Report) -> bool:
        """See `Executor.train`. What a process takes along when it dies is tried again, each run alone."""
        work.check()
        attempts = Attempts(self.retries, self.backoff)
        looks = {run: look_at(work.shared / run.folder, run) for run in work.runs}
        submission = Submission.start(work, "local", sum(look.steps for look in looks.values()))
        pending: list[AnyRun] = list(work.runs)
        pause = 0.0

        def note(event: str, run: AnyRun, details: dict[str, Any]) -> None:
            nonlocal pause
            submission.beat()
            if event == "error":
                cause = details.get("cause")
                if cause != "copy" and not told.isdisjoint({(run, "done"), (run, "diverged")}):
                    return  # it was over before its stack was
                if cause in ("death", "crash"):
                    count = attempts.fail(run, look_at(work.out / run.folder, run).steps)
                    if not attempts.over(count):
                        again.append(run)
                        pause = max(pause, attempts.pause(count))
                        reason = details["message"].strip().splitlines()[-1].partition(";")[0]
                        message = f"{run.folder}: {reason}; it is tried again"
                        report("warning", run, {"message": message})
                        return
                submission.failed[str(run.folder)] = details["message"]
                submission.write()
            key = (run, details["task"] if event == "row" else event)
            once = event in ("row", "resumed", "done", "diverged")
            if not once or key not in told:  # what was told before a process died is not told again
                told.add(key)
                report(event, run, details)

        stopped, retrying, told = False, False, set[object]()
        try:
            while pending and not stopped:
                again: list[AnyRun] = []
                seconds = work.checkpoint_seconds
                with mirrored(pending, work.out, work.sync_to, seconds=seconds, report=note) as ours:
                    stopped = execute(
                        ours,
                        out=work.out,
                        data=work.data,
                        workers=work.workers or cores(),
                        report=note,
                        checkpoint_seconds=seconds,
                        plugins=work.plugins,
                        hardware=Hardware(work.device, work.compile),
                        costs=expected_costs(work.out, ours),
                        isolate=retrying,
                    )
                pending = again
                retrying = True
                if pending and not stopped:
                    time.sleep(pause)
        finally:
            submission.end()
        if not stopped and not submission.failed:
            submission.forget()  # the runs' folders tell all
        return stopped
