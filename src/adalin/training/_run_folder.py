"""The folder of a run: what defines it, where it was run, a row per finished task, its last checkpoints.

RUN/config.json      what defines the run
    manifest.json    versions, machine, data; under "resumed" what was different at later starts
    rows.jsonl       one JSON object per finished task
    cost.json        seconds of one core that it has taken
    checkpoint-*     see _checkpoint.py
    lock             held by the process that works on the run
"""

import errno
import fcntl
import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from adalin.training import _checkpoint
from adalin.training._checkpoint import Checkpoint, CheckpointError
from adalin.training._disk import RunFolderError, check_writable, plain_disk_errors, sync_folder, write_atomically

__all__ = ["Checkpoint", "CheckpointError", "RunFolder", "RunFolderError", "check_writable"]


class RunInUseError(RunFolderError):
    """Another process holds the lock."""


@dataclass(frozen=True)
class RunFolder:
    """Reading works at any time and changes nothing; whoever writes holds the lock.

    Examples:
        with folder.lock():
            folder.create_or_check(config, manifest)
            folder.note_start(manifest)
            checkpoint = folder.load(warn=print)
            folder.trim_rows(tasks=0 if checkpoint is None else checkpoint.position["task"])
    """

    path: Path

    @staticmethod
    def find(root: Path) -> list["RunFolder"]:
        """All run folders in and below a folder, by path."""
        return [RunFolder(config.parent) for config in sorted(root.rglob("config.json"))]

    @property
    def exists(self) -> bool:
        """Whether it is a run's already."""
        return (self.path / "config.json").exists()

    def config(self) -> dict[str, Any]:
        """What defines the run."""
        return _read_json(self.path / "config.json")

    def manifest(self) -> dict[str, Any]:
        """Where and with what it was run."""
        return _read_json(self.path / "manifest.json")

    def create_or_check(
        self, config: dict[str, Any], manifest: dict[str, Any], defaults: dict[str, Any] | None = None
    ) -> None:
        """Creates the folder, or makes sure that it is this config's.

        A field that a config does not have, as it was added later, has its default.
        """
        is_new = not self.exists
        if not is_new:
            given = defaults or {}
            for field, (old, new) in _differences(given | self.config(), given | config).items():
                raise ValueError(
                    f"{self.path} holds a run with {field} = {json.dumps(old)}, not {json.dumps(new)}; "
                    "use another folder or the settings of that run"
                )
        # The manifest comes first: config.json is what makes the folder a run, so it must not exist without the other.
        if not (self.path / "manifest.json").exists():
            self._write_json("manifest.json", manifest)
        else:
            self.manifest()  # which tells if it is damaged
        if is_new:
            self._write_json("config.json", config)

    def note_start(self, manifest: dict[str, Any]) -> None:
        """Notes how the manifest of a later start differs from the first."""
        first = self.manifest()
        resumed = first.pop("resumed", [])
        if changed := _differences(first, manifest):
            entry = {field: new for field, (_, new) in changed.items()}
            self._write_json("manifest.json", {**first, "resumed": [*resumed, entry]})

    def record(
        self,
        config: dict[str, Any],
        manifest: dict[str, Any],
        rows: Sequence[dict[str, Any]],
        position: dict[str, Any],
        core_seconds: float,
    ) -> None:
        """Makes the folder of a run that was trained elsewhere, without its network: all that one needs of it if it is
        over. Its position has the key "recorded"."""
        self._write_json("manifest.json", manifest)  # first: whoever finds the rest must not put theirs in its place
        self._write("rows.jsonl", b"".join(map(_line, rows)))
        self._write_json("cost.json", {"core_seconds": core_seconds})
        self.save(Checkpoint({}, {**position, "recorded": True}))
        self.create_or_check(config, manifest)

    def clear(self) -> None:
        """Deletes all but the lock."""
        with plain_disk_errors(self.path):
            for path in sorted(self.path.iterdir()):
                if path.name != "lock":
                    path.unlink()

    @contextmanager
    def lock(self, wait: float = 0.0) -> Iterator[None]:
        """Keeps every other process, and every other lock() of this one, out; the system frees it when we die."""
        path = self.path / "lock"
        with ExitStack() as stack:
            with plain_disk_errors(path):
                self.path.mkdir(parents=True, exist_ok=True)
                # Never deleted: a process that waits for a deleted file would lock what nobody else can see.
                file = stack.enter_context(path.open("a+"))
                self._acquire(file, wait)
                file.truncate(0)
                file.write(f"{os.getpid()} {socket.gethostname()}\n")
                file.flush()
            yield

    def held_by(self) -> str | None:
        """The machine whose process holds the lock, as far as the file system tells; None if none does."""
        try:
            with (self.path / "lock").open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return file.read().strip().partition(" ")[2] or "unknown"
        except OSError:
            pass
        return None

    def append_row(self, row: dict[str, Any]) -> None:
        """Adds the row of a finished task, completely or not at all. NaN and infinities become null."""
        assert "task" in row, "trim_rows needs to know the task of each row"
        line = _line(row)
        with plain_disk_errors(self._rows), self._rows.open("a+b", buffering=0) as file:
            end = len(_complete_lines(self._rows.read_bytes()))
            file.truncate(end)  # A torn line would swallow this one.
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
                if end == 0:
                    sync_folder(self.path)
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the finished tasks, none missing; a torn last line is none."""
        return [row for _, row in self._lines()]

    def trim_rows(self, tasks: int) -> None:
        """Drops what is not a row of the first `tasks` tasks: after a resume from there the others are run again."""
        kept = b"".join(line for line, row in self._lines() if row["task"] < tasks)
        if self._rows.exists() and self._rows.stat().st_size != len(kept):
            self._write("rows.jsonl", kept)

    def cost(self) -> float:
        """Seconds of one core that the run has taken; 0 if nobody knows."""
        with suppress(RunFolderError):  # it is not worth stopping for
            return float(_read_json(self.path / "cost.json").get("core_seconds", 0.0))
        return 0.0

    def add_cost(self, seconds: float) -> None:
        """Note that the run has taken more time, its share of its stack's."""
        self._write_json("cost.json", {"core_seconds": round(self.cost() + seconds, 3)})

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint; it and the one before it are kept."""
        return _checkpoint.save(self.path, checkpoint)

    def peek(self) -> dict[str, Any] | None:
        """The position of the last checkpoint, which is not verified: quick, for those who only look."""
        return _checkpoint.peek(self.path)

    @property
    def has_network(self) -> bool:
        """Whether it was trained here, and not imported."""
        position = self.peek()
        return position is not None and "recorded" not in position

    def load(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The newest intact checkpoint; each damaged one is warned of."""
        return _checkpoint.load(self.path, warn)

    @property
    def _rows(self) -> Path:
        return self.path / "rows.jsonl"

    def _acquire(self, file: TextIO, wait: float) -> None:
        deadline = time.monotonic() + wait
        while True:
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    file.seek(0)
                    pid, _, host = file.read().strip().partition(" ")
                    who = f"pid {pid or 'unknown'}" + (f" on {host}" if host not in ("", socket.gethostname()) else "")
                    raise RunInUseError(
                        f"another process ({who}) is working on {self.path}; wait for it or stop it"
                    ) from None
            time.sleep(0.05)

    def _lines(self) -> list[tuple[bytes, dict[str, Any]]]:
        if not self._rows.exists():
            return []
        lines = _complete_lines(self._rows.read_bytes()).splitlines(keepends=True)
        rows = [(line, _parse(line, f"line {number} of {self._rows}")) for number, line in enumerate(lines, 1)]
        for task, (_, row) in enumerate(rows):
            if row.get("task") != task:
                raise RunFolderError(
                    f"line {task + 1} of {self._rows} is not the row of task {task}: lines are missing or damaged; "
                    "restore the file or delete the folder to start the run anew"
                )
        return rows

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        self._write(name, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())

    def _write(self, name: str, data: bytes) -> None:
        with plain_disk_errors(self.path / name):
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / name, data, temporary=self.path / f"{name}.tmp")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return _parse(path.read_bytes(), str(path))
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(text: bytes, what: str) -> dict[str, Any]:
    with suppress(ValueError):
        content = json.loads(text)
        if isinstance(content, dict):
            return content
    raise RunFolderError(f"{what} is damaged: not a JSON object; restore it or delete the folder to start the run anew")


def _line(row: dict[str, Any]) -> bytes:
    return (json.dumps(_finite(row), separators=(",", ":"), allow_nan=False) + "\n").encode()


def _complete_lines(data: bytes) -> bytes:
    """Without the last line if its end is missing: the process died, or the disk was full, while it was written."""
    return data[: data.rfind(b"\n") + 1]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields, those of nested objects with dots, whose values differ. A field that is missing is null."""
    before, after = _flat(old), _flat(json.loads(json.dumps(new)))
    pairs = {field: (before.get(field), after.get(field)) for field in before | after}
    return {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
