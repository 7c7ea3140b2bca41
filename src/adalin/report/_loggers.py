"""Rows sent elsewhere while training: TensorBoard, Weights & Biases. Run folders stay what counts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from adalin.runs import Emit, Event, Row


@contextmanager
def open_loggers(names: Sequence[str], out: Path) -> Iterator[list[Emit]]:
    """Functions to pass events on to, closed at the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(_LOGGERS[name](out)) for name in names]


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if isinstance(value, int | float) and name != "task"}


@contextmanager
def _tensorboard(out: Path) -> Iterator[Any]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("--log tensorboard needs it: pip install tensorboard") from None
    writers: dict[Path, SummaryWriter] = {}

    def note(event: Event) -> None:
        if isinstance(event, Row):
            folder = event.run.folder
            if folder not in writers:
                # What a killed process had written of tasks that are trained again is hidden.
                writers[folder] = SummaryWriter(str(out / "tensorboard" / folder), purge_step=event.task)
            for name, value in _numbers(event.values).items():
                writers[folder].add_scalar(name, value, event.task)

    try:
        yield note
    finally:
        for writer in writers.values():
            writer.close()


@contextmanager
def _wandb(out: Path) -> Iterator[Any]:
    try:
        import wandb
    except ImportError:
        raise ValueError("--log wandb needs it: pip install wandb") from None
    runs: dict[Path, Any] = {}

    def note(event: Event) -> None:
        if isinstance(event, Row):
            run = event.run
            if run.folder not in runs:
                out.mkdir(parents=True, exist_ok=True)
                runs[run.folder] = wandb.init(
                    project="adalin",
                    group=run.setting_folder.name,
                    name=f"{run.method} seed {run.seed}",
                    id=str(run.folder).replace("/", "."),  # a run that goes on is the same run there
                    resume="allow",
                    reinit="create_new",
                    dir=out,
                    config=dict(run.config),
                )
            runs[run.folder].log(_numbers(event.values), step=event.task)

    try:
        yield note
    finally:
        for tracked in runs.values():
            tracked.finish()


_LOGGERS = {"tensorboard": _tensorboard, "wandb": _wandb}
