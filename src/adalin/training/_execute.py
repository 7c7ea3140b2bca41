"""Runs on the cores of this machine: grouped into stacks, one process per core, one thread each."""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import chain, pairwise
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from adalin.training._any_run import AnyRun, Report
from adalin.training._hardware import Hardware
from adalin.training._run_folder import RunFolder, RunFolderError, check_writable
from adalin.training._train import MAX_STACK

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOCK_SECONDS = 10.0
"""How long to wait for a folder whose process was just killed."""


def make_stacks(runs: Sequence[AnyRun], workers: int) -> list[list[AnyRun]]:
    """Groups of runs that may be trained together, enough to keep all workers busy."""
    kinds: dict[tuple[Any, ...], list[AnyRun]] = {}
    for run in sorted(runs, key=lambda run: str(run.folder)):
        kinds.setdefault(run.stack_key, []).append(run)
    stacks = []
    for members in kinds.values():
        parts = max(min(workers, len(members)), -(-len(members) // MAX_STACK))
        bounds = [len(members) * part // parts for part in range(parts + 1)]
        stacks += [members[start:end] for start, end in pairwise(bounds)]
    return sorted(stacks, key=lambda stack: -sum(run.total_steps for run in stack))


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
) -> bool:
    """Train runs to their end, or to the first SIGINT or SIGTERM, which saves what there is; returns whether one came.

    With one worker everything happens in this process.
    """
    check_workers(workers)
    if not checkpoint_seconds >= 0:
        raise ValueError(f"checkpoint-seconds must be a number of at least 0, not {checkpoint_seconds}")
    check_writable(out, needed_bytes=sum(run.disk_bytes for run in runs if not (out / run.folder).exists()))
    stacks = make_stacks(runs, workers)
    settings: dict[str, Any] = {
        "out": out,
        "data": data,
        "checkpoint_seconds": checkpoint_seconds,
        "hardware": hardware or Hardware(),
    }
    with _stop_on_signals() as stop:
        if workers == 1 or len(stacks) == 1:
            with engine_settings():
                for stack in stacks:
                    if not stop():
                        train_stack(stack, report=report, stop=stop, **settings)
        else:
            _Pool(stacks, min(workers, len(stacks)), settings, tuple(plugins), report).go(stop)
        return stop()


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
                    folder.create_or_check(run.config(), manifest, run.defaults())
                except (ValueError, RunFolderError) as error:  # the others can go on
                    report("error", run, {"message": str(error)})
                    return None
                return folder

            options: dict[str, Any] = {"checkpoint_seconds": checkpoint_seconds, "hardware": hardware}
            runs[0].train(runs, open_folder, data=data, report=report, stop=stop, **options)
    except (ValueError, RunFolderError) as error:
        for run in runs:
            report("error", run, {"message": str(error)})
    except Exception:
        for run in runs:
            report("error", run, {"message": traceback.format_exc()})


class _Pool:
    """Worker processes that get one stack after the other."""

    def __init__(
        self,
        stacks: list[list[AnyRun]],
        workers: int,
        settings: dict[str, Any],
        plugins: tuple[str, ...],
        report: Report,
    ) -> None:
        self._waiting, self._report = list(stacks), report
        self._busy: dict[Connection, list[AnyRun]] = {}
        self._workers: dict[Connection, Any] = {}
        spawn = multiprocessing.get_context("spawn")  # torch and fork do not go together
        resource_tracker.ensure_running()  # now: it unblocks signals
        # A signal waits until a worker, whose imports take seconds, can handle it: it inherits what is blocked here.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for _ in range(workers):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_work, args=(theirs, settings, plugins), daemon=True)
            process.start()
            theirs.close()
            self._workers[ours] = process
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def go(self, stop: Callable[[], bool]) -> None:
        told = False
        for connection in list(self._workers):
            self._next(connection)
        while self._workers:
            if stop() and not told:
                told = True
                self._waiting.clear()
                for process in self._workers.values():
                    if process.is_alive():
                        os.kill(process.pid, signal.SIGTERM)
            for ready in wait(list(self._workers), timeout=0.5):
                assert isinstance(ready, Connection)
                self._receive(ready)
        for run in chain.from_iterable(self._waiting):
            self._report("error", run, {"message": "all processes died before its turn; the same command starts it"})

    def _receive(self, connection: Connection) -> None:
        try:
            event, run, details = connection.recv()
        except (EOFError, OSError):
            process = self._workers.pop(connection)
            process.join()
            for run in self._busy.pop(connection, []):
                message = f"its process died (exit code {process.exitcode}); the same command resumes it"
                self._report("error", run, {"message": message})
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


def _work(connection: Connection, settings: dict[str, Any], plugins: tuple[str, ...]) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    for plugin in plugins:
        import_module(plugin)

    def report(event: str, run: AnyRun, details: dict[str, Any]) -> None:
        with suppress(OSError):  # the parent is gone; `stop` notices
            connection.send((event, run, details))

    with _stop_on_signals() as signalled, engine_settings():

        def stop() -> bool:
            return signalled() or not parent.is_alive()

        with suppress(EOFError, OSError):  # the parent is gone
            while (stack := connection.recv()) is not None:
                if not stop():
                    train_stack(stack, report=report, stop=stop, **settings)
                connection.send(("idle", None, None))


@contextmanager
def _stop_on_signals() -> Iterator[Callable[[], bool]]:
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
