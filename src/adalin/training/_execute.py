"""Runs on the cores of this machine: grouped into stacks, one process per core, one thread each."""

import math
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import pairwise
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from adalin.training._any_run import ENDED, AnyRun, Conditions, Report
from adalin.training._hardware import Hardware
from adalin.training._resume import START
from adalin.training._run_folder import RunFolder, RunFolderError, RunInUseError, check_writable
from adalin.training._train import MAX_STACK

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BATCH_SIGNAL = signal.SIGUSR2
"""What batch systems send to all processes of a job before it has to end; the first of them decides."""
LOCK_SECONDS = 10.0
"""How long to wait for a folder whose process was just killed."""


def make_stacks(
    runs: Sequence[AnyRun], workers: int, costs: Mapping[AnyRun, float] | None = None
) -> list[list[AnyRun]]:
    """Groups of runs that may be trained together, the most expensive first, enough to keep all workers busy.

    Each kind of runs is divided into parts that cost no more than a worker's share of everything; costs are by default
    the runs' steps.
    """
    costs = costs or {run: float(run.total_steps) for run in runs}
    share = sum(costs[run] for run in runs) / workers
    kinds: dict[tuple[Any, ...], list[AnyRun]] = {}
    for run in sorted(runs, key=lambda run: str(run.folder)):
        kinds.setdefault(run.stack_key, []).append(run)
    stacks = []
    for members in kinds.values():
        wanted = math.ceil(sum(costs[run] for run in members) / share - 1e-6) if share else 1
        parts = max(min(wanted, len(members)), -(-len(members) // MAX_STACK))
        bounds = [len(members) * part // parts for part in range(parts + 1)]
        stacks += [members[start:end] for start, end in pairwise(bounds)]
    return sorted(stacks, key=lambda stack: -sum(costs[run] for run in stack))


def execute(
    runs: Sequence[AnyRun],
    *,
    out: Path,
    data: str | Path | None = None,
    workers: int = 1,
    report: Report = lambda event, run, details: None,
    checkpoint_seconds: float = 60.0,
    plugins: Sequence[str] = (),
    hardware: Hardware | None = None,
    costs: Mapping[AnyRun, float] | None = None,
    isolate: bool = False,
    asked: Callable[[], bool] = lambda: False,
) -> bool:
    """Train runs to their end, or to the first SIGINT or SIGTERM, or until `asked` to stop, which saves what there is;
    returns whether it was stopped.

    With one worker everything happens in this process, unless runs are to be isolated: then each is trained alone, and
    never in this process, which outlives whatever it does.
    """
    check_execution(runs, out, workers, checkpoint_seconds)
    stacks = [[run] for run in runs] if isolate else make_stacks(runs, workers, costs)
    settings: dict[str, Any] = {
        "out": out,
        "data": data,
        "checkpoint_seconds": checkpoint_seconds,
        "hardware": hardware or Hardware(),
    }
    with stop_on_signals() as signalled:

        def stop() -> bool:
            return signalled() or asked()

        if not isolate and (workers == 1 or len(stacks) == 1):
            with engine_settings():
                for stack in stacks:
                    if not stop():
                        train_stack(stack, report=report, stop=stop, **settings)
        else:
            _Pool(stacks, workers, settings, tuple(plugins), report).go(stop)
        return stop()


def check_execution(runs: Sequence[AnyRun], out: Path, workers: int, checkpoint_seconds: float) -> None:
    """Raises an error that says what to do if there is no room for runs, or nobody to train them."""
    check_workers(workers)
    if not checkpoint_seconds >= 0:
        raise ValueError(f"checkpoint-seconds must be a number of at least 0, not {checkpoint_seconds}")
    check_writable(out, needed_bytes=sum(run.disk_bytes for run in runs if not (out / run.folder).exists()))


def check_workers(workers: int) -> None:
    """Raises ValueError unless there is at least one."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")


def train_stack(
    runs: Sequence[AnyRun],
    *,
    out: Path,
    data: str | Path | None,
    report: Report,
    stop: Callable[[], bool],
    checkpoint_seconds: float,
    hardware: Hardware,
) -> None:
    """One stack in this process. What goes wrong is reported and ends this stack only."""
    try:
        with ExitStack() as locks:

            def open_folder(run: AnyRun, manifest: dict[str, Any]) -> RunFolder | None:
                folder = RunFolder(out / run.folder)
                try:
                    locks.enter_context(folder.lock(wait=LOCK_SECONDS))
                    position = folder.peek() or START
                    ended = run.state_at(position) in ENDED
                    if "recorded" in position and not ended:
                        message = f"{folder.path} was imported with fewer tasks, without its network: it starts anew"
                        report("warning", run, {"message": message})
                        folder.clear()
                    folder.create_or_check(run.config(), manifest, run.defaults())
                    if not ended:  # else nothing is trained here
                        folder.note_start(manifest)
                except (ValueError, RunFolderError) as error:  # the others can go on
                    cause = {"cause": "in use"} if isinstance(error, RunInUseError) else {}
                    report("error", run, {"message": str(error)} | cause)
                    return None
                return folder

            runs[0].train(runs, Conditions(open_folder, data, report, stop, checkpoint_seconds, hardware))
    except (ValueError, RunFolderError) as error:
        for run in runs:
            report("error", run, {"message": str(error)})
    except Exception:
        for run in runs:
            report("error", run, {"message": traceback.format_exc(), "cause": "crash"})


class _Pool:
    """Worker processes that get one stack after the other; one that dies is replaced while there is work."""

    def __init__(
        self,
        stacks: list[list[AnyRun]],
        workers: int,
        settings: dict[str, Any],
        plugins: tuple[str, ...],
        report: Report,
    ) -> None:
        self._waiting, self._report = list(stacks), report
        self._settings, self._plugins, self._size = settings, plugins, workers
        self._busy: dict[Connection, list[AnyRun]] = {}
        self._workers: dict[Connection, Any] = {}
        self._places: dict[Connection, int] = {}
        resource_tracker.ensure_running()  # now: it unblocks signals
        for place in range(min(workers, len(stacks))):
            self._start(place)

    def go(self, stop: Callable[[], bool]) -> None:
        told = False
        try:
            while self._workers:
                if stop() and not told:
                    told = True
                    self._waiting.clear()
                    self._terminate()
                for ready in wait(list(self._workers), timeout=0.5):
                    assert isinstance(ready, Connection)
                    self._receive(ready)
        finally:  # some are left if `report` has raised an error: nobody would wait for them
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
        arguments = (theirs, self._settings, self._plugins, place, self._size)
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
            event, run, details = connection.recv()
        except (EOFError, OSError):
            process = self._workers.pop(connection)
            process.join()
            for run in self._busy.pop(connection, []):
                message = f"its process died (exit code {process.exitcode}); the same command resumes it"
                self._report("error", run, {"message": message, "cause": "death"})
            if self._waiting:
                self._start(self._places[connection])
            return
        if event == "idle":
            self._busy.pop(connection, None)
            self._next(connection)
        else:
            self._report(event, run, details)

    def _next(self, connection: Connection) -> None:
        stack = self._waiting.pop(0) if self._waiting else None
        if stack is not None:
            self._busy[connection] = stack
        with suppress(OSError):  # it died; `_receive` says so
            connection.send(stack)


def _work(connection: Connection, settings: dict[str, Any], plugins: tuple[str, ...], place: int, workers: int) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    signal.signal(BATCH_SIGNAL, signal.SIG_IGN)  # the parent gets it too, and tells us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (BATCH_SIGNAL,))
    _pin(place, workers, settings["hardware"].device)
    for plugin in plugins:
        import_module(plugin)

    def report(event: str, run: AnyRun, details: dict[str, Any]) -> None:
        with suppress(OSError):  # the parent is gone; `stop` notices
            connection.send((event, run, details))

    with stop_on_signals() as signalled, engine_settings():

        def stop() -> bool:
            return signalled() or not parent.is_alive()

        with suppress(EOFError, OSError):  # the parent is gone
            while (stack := connection.recv()) is not None:
                if not stop():
                    train_stack(stack, report=report, stop=stop, **settings)
                connection.send(("idle", None, None))


def cores() -> int:
    """Of the machine's, those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pin(place: int, workers: int, device: str) -> None:
    """One core for each worker, if there are as many: fewer might share one with those of another command. And one
    of the CUDA devices, if there are several and none is named."""
    if hasattr(os, "sched_setaffinity") and len(usable := sorted(os.sched_getaffinity(0))) == workers:
        os.sched_setaffinity(0, {usable[place]})
    if device == "cuda" and (count := torch.cuda.device_count()) > 1:
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[place % len(devices)]


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Says whether SIGINT or SIGTERM has come, instead of dying of them; a second SIGINT interrupts as usual."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return

    def note(number: int, frame: Any) -> None:
        if came.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.set()

    before = {number: signal.signal(number, note) for number in SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        yield came.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def engine_settings() -> Iterator[None]:
    """One thread per process is faster than two; denormal numbers, which collapsing networks have, are slow; and a run
    is float32 whatever the caller's default is."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
        torch.set_default_dtype(dtype)
