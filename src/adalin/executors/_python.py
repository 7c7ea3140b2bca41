"""Train and compare from Python."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adalin._hardware import Hardware
from adalin.executors._pool import execute
from adalin.runs import (
    LOCK_SECONDS,
    Comparison,
    Emit,
    Event,
    Problem,
    Result,
    Run,
    RunFolder,
    RunFolderError,
    Session,
    ignore,
    kind_of,
    kinds,
)


def define(
    benchmark: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    data: str | Path | None = None,
    **settings: Any,
) -> Comparison:
    """The runs of a comparison, and the data set they need; what is wrong with them is told before anything starts.

    Settings are those of the command `adalin run`; left out or None, the benchmark's.
    """
    if not isinstance(benchmark, str):
        raise TypeError(f"a benchmark is given by its name, not as {benchmark!r}")
    return kind_of(benchmark).define(benchmark, methods, seeds, data=data, **settings)


def check_monitored(runs: Sequence[Run[Any]]) -> None:
    """Raises ValueError if looks and probes cannot be written beside the rows of a run."""
    for run in runs:
        if not kinds.get(run.kind).can_be_monitored:
            raise ValueError(f"monitor is for runs on streams of tasks, not for {run.kind}")


def run(
    benchmark: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    out: str | Path = "runs",
    data: str | Path | None = None,
    workers: int = 1,
    hardware: Hardware | None = None,
    allow_engine_change: bool = False,
    monitor: bool = False,
    emit: Emit = ignore,
    **settings: Any,
) -> list[Result]:
    """Train every method with every seed, or go on where an earlier call stopped; returns the results.

    Settings are those of the command `adalin run`, such as tasks, epochs, batch_size, lr and images; left out, the
    benchmark's. Ctrl-C saves what there is before it raises KeyboardInterrupt. A run that another engine has begun is
    refused, as its last digits would differ, unless that is allowed. With `monitor`, looks and probes of each task are
    written to `monitor.jsonl` beside the rows.

    Examples:
        >>> import tempfile
        >>> import adalin
        >>> with tempfile.TemporaryDirectory() as out:
        ...     short = {"tasks": 1, "epochs": 1, "images": 64}
        ...     results = adalin.run("random-label-mnist", ["baseline", "adalin"], [3], out=out, **short)
        ...     [len(result.rows) for result in results]
        [1, 1]
    """
    if not isinstance(out, str | Path) or not str(out):
        raise ValueError(f"out must be a folder, not {out!r}")
    if hardware is not None and not isinstance(hardware, Hardware):
        raise TypeError(f"hardware must be a Hardware, such as Hardware('cuda'), not {hardware!r}")
    runs = define(benchmark, methods, seeds, data=data, **settings).runs
    if monitor:
        check_monitored(runs)
    errors: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Problem) and not event.is_warning:
            errors.append(event.message)
        emit(event)

    session = Session(
        out=Path(out),
        data=data,
        hardware=hardware or Hardware(),
        allow_engine_change=allow_engine_change,
        monitor=monitor,
        lock_deadline=time.monotonic() + LOCK_SECONDS,
        emit=note,
    )
    stopped = execute(runs, session, workers=workers)
    if errors:
        raise RunFolderError("\n".join(dict.fromkeys(errors)))
    if stopped:
        raise KeyboardInterrupt("stopped and saved; the same call goes on")
    return [Result.open(RunFolder(session.out / run.folder), run) for run in runs]
