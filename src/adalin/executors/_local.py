"""Processes on this machine."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

from adalin.executors._costs import expected_costs
from adalin.executors._executor import Attempts, Executor, Work
from adalin.executors._mirror import mirrored
from adalin.executors._pool import cores, execute
from adalin.executors._status import read_state
from adalin.executors._submission import Submission
from adalin.runs import LOCK_SECONDS, Emit, Ended, Event, Problem, Progress, Resumed, Row, Run


@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """One process per core, with one thread each; with one worker, this process."""

    retries: int = 2
    """Attempts in a row that may bring a run no further, beyond the first."""
    backoff: float = 5.0
    """Seconds before the first retry; twice as many before each later one."""

    def train(self, work: Work, emit: Emit) -> bool:
        """See `Executor.train`. A run whose process dies is tried again, in a process of its own."""
        work.check()
        made = sum(read_state(work.shared / run.folder, run).steps for run in work.runs)
        submission = Submission.start(work, "local", made)
        rounds = _Rounds(work, submission, Attempts(self.retries, self.backoff), emit)
        try:
            stopped = rounds.train_all()
        finally:
            submission.end()
        if not stopped and not submission.failed:
            submission.forget()  # the runs' folders say everything
        return stopped


@dataclass(eq=False)
class _Rounds:
    """The runs of one command: all of them first, then again and again those that died."""

    work: Work
    submission: Submission
    attempts: Attempts
    emit: Emit
    again: list[Run[Any]] = field(default_factory=list)
    """Runs for the next round."""
    pause: float = 0.0
    """Seconds before it."""
    seen: set[object] = field(default_factory=set)
    """Events that are told once only: what was told before a process died comes again."""

    def train_all(self) -> bool:
        """Train until nothing is left to try; returns whether a signal came."""
        work, pending = self.work, list(self.work.runs)
        is_first, stopped = True, False
        while pending and not stopped:
            self.again = []
            session = replace(work.session, emit=self._note, lock_deadline=time.monotonic() + LOCK_SECONDS)
            with mirrored(pending, session, work.sync_to) as ours:
                stopped = execute(
                    ours,
                    session,
                    workers=work.workers or cores(),
                    plugins=work.plugins,
                    costs=expected_costs(session.out, ours),
                    isolate=not is_first,
                )
            pending, is_first = self.again, False
            if pending and not stopped:
                time.sleep(self.pause)
        return stopped

    def _note(self, event: Event) -> None:
        self.submission.heartbeat()
        match event:
            case Problem(is_warning=False):
                self._note_problem(event)
            case Row():
                self._emit_once((event.run, "row", event.task), event)
            case Resumed() | Ended():
                self._emit_once((event.run, _what(event)), event)
            case Progress() | Problem():
                self.emit(event)

    def _emit_once(self, key: object, event: Event) -> None:
        if key not in self.seen:
            self.seen.add(key)
            self.emit(event)

    def _note_problem(self, problem: Problem) -> None:
        run = problem.run
        is_over = not self.seen.isdisjoint({(run, "done"), (run, "diverged")})
        if is_over and problem.cause != "copy":
            return  # it had ended before its process did
        if problem.cause in ("death", "crash"):
            count = self.attempts.fail(run, read_state(self.work.session.out / run.folder, run).steps)
            if not self.attempts.over(count):
                self.again.append(run)
                self.pause = max(self.pause, self.attempts.pause(count))
                reason = problem.message.strip().splitlines()[-1].partition(";")[0]
                self.emit(Problem(run, f"{run.folder}: {reason}; it is tried again", is_warning=True))
                return
        self.submission.failed[str(run.folder)] = problem.message
        self.submission.write()
        self.emit(problem)


def _what(event: Resumed | Ended) -> str:
    return "resumed" if isinstance(event, Resumed) else event.state
