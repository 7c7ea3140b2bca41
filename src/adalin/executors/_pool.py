"""Runs on the cores of this machine: one process per core, one thread each."""

import ctypes
import math
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from adalin.runs import (
    Event,
    Problem,
    Run,
    RunFolderError,
    Session,
    check_writable,
    kinds,
)

Runs = Sequence[Run[Any]]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals on which a command saves and ends: Ctrl-C, a polite kill, and a terminal that is gone."""
BATCH_SIGNAL = signal.SIGUSR2
"""What batch systems send to all processes of a job before it has to end; the first of them decides."""


def dearest_first(runs: Runs, costs: Mapping[Run[Any], float] | None = None) -> list[Run[Any]]:
    """Runs in the order in which to hand them out, so that no long one is left for the end.

    Costs are by default the runs' steps. Among equals those on the same data follow each other.
    """

    def key(run: Run[Any]) -> tuple[float, str, int, str]:
        cost = run.total_steps if costs is None else costs[run]
        return -cost, run.benchmark, run.seed, str(run.folder)

    return sorted(runs, key=key)


def execute(
    runs: Runs,
    session: Session,
    *,
    workers: int = 1,
    plugins: Sequence[str] = (),
    costs: Mapping[Run[Any], float] | None = None,
    isolate: bool = False,
) -> bool:
    """Train runs to their end, or to the first signal, or until the session asks to stop, which saves what there is;
    returns whether it was stopped.

    With one worker everything happens in this process, unless runs are to be isolated: then this process outlives
    whatever they do.
    """
    check_execution(runs, session, workers)
    waiting = dearest_first(runs, costs)
    with stop_on_signals() as signalled:

        def stop() -> bool:
            return signalled() or session.stop()

        if not isolate and (workers == 1 or len(waiting) == 1):
            with engine_settings():
                for run in waiting:
                    if not stop():
                        train_or_tell(run, replace(session, stop=stop))
        else:
            _Pool(waiting, session, workers, tuple(plugins)).run(stop)
        return stop()


def check_execution(runs: Runs, session: Session, workers: int) -> None:
    """Raises an error that says what to do if there is no room for runs, or nobody to train them."""
    check_workers(workers)
    if not 0 <= session.checkpoint_seconds < math.inf:
        raise ValueError(f"checkpoint-seconds must be a number of at least 0, not {session.checkpoint_seconds}")
    new = [run for run in runs if not (session.out / run.folder).exists()]
    check_writable(session.out, needed_bytes=sum(run.disk_bytes for run in new))


MOST_WORKERS = 10_000
"""More processes than any machine has room for, and more jobs than a cluster wants of one command."""


def check_workers(workers: int) -> None:
    """Raises ValueError unless there is at least one, and not more than any machine has."""
    if not isinstance(workers, int) or workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1, not {workers}")
    if workers > MOST_WORKERS:
        raise ValueError(f"workers must be a whole number of at most {MOST_WORKERS:,}, not {workers}")


def train_or_tell(run: Run[Any], session: Session) -> None:
    """One run in this process. What goes wrong is told and ends this run only."""
    try:
        kinds.get(run.kind).train(run, session)
    except (ValueError, RunFolderError) as error:
        session.emit(Problem(run, str(error)))
    except Exception:
        session.emit(Problem(run, traceback.format_exc(), "crash"))


class _Pool:
    """Worker processes that get one run after the other; one that dies is replaced while there is work."""

    def __init__(self, runs: list[Run[Any]], session: Session, workers: int, plugins: tuple[str, ...]) -> None:
        self._waiting, self._emit = list(runs), session.emit
        # Whoever works elsewhere has its own ways to tell and to be stopped.
        self._session = Session(
            out=session.out,
            data=session.data,
            hardware=session.hardware,
            checkpoint_seconds=session.checkpoint_seconds,
            allow_engine_change=session.allow_engine_change,
            monitor=session.monitor,
            lock_deadline=session.lock_deadline,
        )
        self._plugins, self._size = plugins, workers
        self._busy: dict[Connection, Run[Any]] = {}
        self._workers: dict[Connection, Any] = {}
        self._places: dict[Connection, int] = {}
        resource_tracker.ensure_running()  # now: it unblocks signals
        for place in range(min(workers, len(runs))):
            self._start(place)

    def run(self, stop: Callable[[], bool]) -> None:
        """Wait until all runs are trained, or all workers have saved."""
        is_stopping = False
        try:
            while self._workers:
                if stop() and not is_stopping:
                    is_stopping = True
                    self._waiting.clear()
                    self._terminate()
                for ready in wait(list(self._workers), timeout=0.5):
                    assert isinstance(ready, Connection)
                    self._receive(ready)
        finally:  # some are left if `emit` has raised an error: nobody would wait for them
            self._terminate()
            for connection, process in self._workers.items():
                connection.close()  # it may be waiting for us to read
                process.join()

    def _terminate(self) -> None:
        """By SIGTERM, on which they save."""
        for process in self._workers.values():
            process.terminate()

    def _start(self, place: int) -> None:
        spawn = multiprocessing.get_context("spawn")  # torch and fork do not go together
        ours, theirs = spawn.Pipe()
        arguments = (theirs, self._session, self._plugins, place, self._size)
        process = spawn.Process(target=_work, args=arguments, daemon=True)
        # A signal waits until a worker, whose imports take seconds, can handle it: it inherits what is blocked here.
        blocked = (*SIGNALS, BATCH_SIGNAL)
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        process.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        theirs.close()
        self._workers[ours], self._places[ours] = process, place
        self._next(ours)

    def _receive(self, connection: Connection) -> None:
        try:
            event: Event | None = connection.recv()
        except (EOFError, OSError):
            self._bury(connection)
            return
        if event is None:  # it has nothing to do
            self._busy.pop(connection, None)
            self._next(connection)
        else:
            self._emit(event)

    def _bury(self, connection: Connection) -> None:
        process = self._workers.pop(connection)
        process.join()
        run = self._busy.pop(connection, None)
        if run is not None:
            message = f"its process died (exit code {process.exitcode}); the same command resumes it"
            self._emit(Problem(run, message, "death"))
        if self._waiting:
            self._start(self._places[connection])

    def _next(self, connection: Connection) -> None:
        run = self._waiting.pop(0) if self._waiting else None
        if run is not None:
            self._busy[connection] = run
        with suppress(OSError):  # it died; `_receive` says so
            connection.send(run)


def _work(connection: Connection, session: Session, plugins: tuple[str, ...], place: int, workers: int) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    signal.signal(BATCH_SIGNAL, signal.SIG_IGN)  # the parent gets it too, and tells us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (BATCH_SIGNAL,))
    _pin(place, workers, session.hardware.device)
    for plugin in plugins:
        import_module(plugin)

    def emit(event: Event) -> None:
        with suppress(OSError):  # the parent is gone; `stop` notices
            connection.send(event)

    with stop_on_signals() as signalled, engine_settings():

        def stop() -> bool:
            return signalled() or not parent.is_alive()

        with suppress(EOFError, OSError):  # the parent is gone
            while (run := connection.recv()) is not None:
                if not stop():
                    train_or_tell(run, replace(session, emit=emit, stop=stop))
                connection.send(None)


def cores() -> int:
    """Cores of the machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pin(place: int, workers: int, device: str) -> None:
    """One core for each worker, if there are as many: fewer might share one with those of another command. And one
    of the CUDA devices, if there are several and none is named."""
    if hasattr(os, "sched_setaffinity"):
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) == workers:
            os.sched_setaffinity(0, {usable[place]})
    count = torch.cuda.device_count() if device == "cuda" else 0
    if count > 1:
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[place % len(devices)]


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Says whether one of `SIGNALS` has come, instead of dying of it; a second SIGINT interrupts as usual."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return

    def note(number: int, frame: Any) -> None:
        if came.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.set()

    # What was started with nohup is to ignore that its terminal is gone.
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        yield came.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Options of glibc's `mallopt`."""
USUAL_BYTES, KEPT_BYTES = 128 * 1024, 2**30
"""Sizes from which glibc gives memory back: by default, and while runs are trained."""


@contextmanager
def engine_settings() -> Iterator[None]:
    """One thread per process is faster than two; denormal numbers, which collapsing networks have, are slow, and so is
    memory fresh from the system; a run is float32 whatever the caller's default is."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.set_default_dtype(torch.float32)
    _return_freed_memory_from(KEPT_BYTES)
    try:
        yield
    finally:
        _return_freed_memory_from(USUAL_BYTES)
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
        torch.set_default_dtype(dtype)


def _return_freed_memory_from(size: int) -> None:
    """Tell glibc, where it is the allocator, which blocks come from the system and go back to it at once."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            mallopt(option, size)
