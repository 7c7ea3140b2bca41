"""The folder of a run: what defines it, where it was run, a row per finished task, its last checkpoints.

RUN/config.json      what defines the run
    manifest.json    versions, machine, data; under "resumed" what was different at later starts
    rows.jsonl       one JSON object per finished task
    monitor.jsonl    looks and probes of each task, with --monitor
    cost.json        seconds of one core that it has taken
    checkpoint-*     see _checkpoint.py; the last one vouches for the rows before it
    lock             held by the process that works on the run
    set-aside-*/     what was there before, of a run that had to start anew
"""

import errno
import hashlib
import itertools
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:
    raise ImportError(
        "the laboratory needs a POSIX system, such as Linux, macOS or WSL; layers, convert and metrics work everywhere"
    ) from None

from adalin.runs import _checkpoint
from adalin.runs._checkpoint import Checkpoint, CheckpointError, DamagedError, Header
from adalin.runs._disk import (
    FileMissingError,
    RunFolderError,
    open_regular,
    plain_disk_errors,
    read_bytes,
    read_file,
    sync_folder,
    write_atomically,
)
from adalin.runs._find import find_folders
from adalin.runs._paths import shown_path
from adalin.runs._rows import (
    HINT,
    MOST_BYTES,
    MOST_TASKS,
    Row,
    complete_lines,
    first_lines,
    parse_rows,
    row_line,
    rows_digest,
)
from adalin.runs._schema import Schema, read_json

_TASKS = range(1, MOST_TASKS + 1)
_VALUE = (None, bool, float, str)
_VALUES = (*_VALUE, [_VALUE], {str: _VALUE})
_START = {"tasks?": _TASKS, "commit?": (None, str)}
CONFIG = Schema({"benchmark": str, "method": str, "seed": int, str: _VALUES})
MANIFEST = Schema(
    {
        **_START,
        "data?": (None, {"source": str, "sha256?": str}),
        "protocol?": {str: str},
        "versions?": {str: (None, str)},
        "machine?": {str: _VALUE},
        "resumed?": [{**_START, str: _VALUES}],
        str: _VALUES,
    }
)
"""Fields of a run's manifest."""
COST = Schema({"core_seconds": float})
POSITION = Schema(
    {
        "task": range(0, MOST_TASKS + 1),
        "step": range(0, 2**53),
        "state?": {"running", "stopped", "done", "diverged"},
        "recorded?": bool,
    }
)
"""Fields that the positions of all kinds of runs have; a kind has more of its own."""

_JSON_HINT = "restore it or delete the folder to start the run anew"
_OWN_FILES = ("config.json", "manifest.json", "rows.jsonl", "cost.json")
_TEMPORARIES = (*(f"{name}.tmp" for name in _OWN_FILES), _checkpoint.TEMPORARY, "replay.tmp", "copy.tmp")

_CANONICAL = json.JSONEncoder(sort_keys=True)

_held: dict[Path, int] = {}
"""Descriptors of the locks that this process holds, by folder."""


class RunInUseError(RunFolderError):
    """Another process holds the lock, or may have taken it from this one."""


@dataclass(frozen=True)
class Snapshot:
    """All that a run's folder says of it but for its tensors."""

    config: dict[str, Any]
    """Definition of the run."""
    manifest: dict[str, Any]
    """Machine, versions and data of the run."""
    position: dict[str, Any] | None
    """Position of its last checkpoint; None without one."""
    rows: list[Row]
    """Rows of the finished tasks. The checkpoint vouches for those of the tasks before it."""
    core_seconds: float
    """Seconds of one core that it has taken; 0 if nobody knows."""


@dataclass(frozen=True)
class RunFolder:
    """Reading works at any time and changes nothing; whoever writes holds the lock.

    What is read may have been put there by anybody: whatever it is, the answer is right or a RunFolderError of one
    line.

    Examples:
        with folder.lock():
            folder.create_or_check(config, manifest)
            folder.note_start(manifest)
            checkpoint = folder.load(warn=print)
            folder.trim_rows(tasks=0 if checkpoint is None else checkpoint.position["task"])
    """

    path: Path
    """Path of the folder, which need not exist."""

    @staticmethod
    def find(root: Path) -> list["RunFolder"]:
        """All run folders in and below a folder, by path; links to folders are followed."""
        return [RunFolder(path) for path in find_folders(root, "config.json")]

    @property
    def exists(self) -> bool:
        """Whether it is a run's already."""
        return os.path.lexists(self.path / "config.json")

    def config(self) -> dict[str, Any]:
        """What defines the run."""
        config: dict[str, Any] = self._read_json("config.json", CONFIG)
        return config

    def manifest(self) -> dict[str, Any]:
        """Where and with what it was run."""
        manifest: dict[str, Any] = self._read_json("manifest.json", MANIFEST)
        return manifest

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
                    f"{shown_path(self.path)} holds a run with {field} = {json.dumps(old)}, not {json.dumps(new)}; "
                    "use another folder or the settings of that run"
                )
        # The manifest comes first: config.json is what makes the folder a run, so it must not exist without the other.
        if not os.path.lexists(self.path / "manifest.json"):
            self._write_json("manifest.json", manifest)
        else:
            self.manifest()  # which tells if it is damaged
        if is_new:
            self._write_json("config.json", config)

    def note_start(self, manifest: dict[str, Any]) -> None:
        """Notes how the manifest of a later start differs from the first; also that it does not, after one that did."""
        first = self.manifest()
        resumed = first.pop("resumed", [])
        entry = {field: new for field, (_, new) in _differences(first, manifest).items()}
        if entry or resumed[-1:] not in ([], [{}]):
            self._write_json("manifest.json", {**first, "resumed": [*resumed, entry]})

    def record(
        self,
        config: dict[str, Any],
        manifest: dict[str, Any],
        rows: Sequence[Row],
        position: dict[str, Any],
        core_seconds: float,
    ) -> None:
        """Makes the folder of a run that was trained elsewhere, without its network: all that one needs of it if it is
        over. Its position has the key "recorded"."""
        lines = b"".join(map(row_line, rows))
        self._write_json("manifest.json", manifest)  # first: whoever finds the rest must not put theirs in its place
        self._write("rows.jsonl", lines)
        self._write_json("cost.json", {"core_seconds": core_seconds})
        self._save(Checkpoint({}, {**position, "recorded": True}), config, lines)
        self.create_or_check(config, manifest)

    def clear(self) -> None:
        """Deletes the run, and nothing else that is in the folder.

        If that fails in the middle, the folder is that of no run, and the last of its checkpoints still says that it
        has to be cleared.
        """
        self._remove(lambda path: path.unlink())

    def set_aside(self) -> Path:
        """Moves the run into a folder below, where nobody takes it for one; returns that folder.

        There config.json has another name. To have the run back, move everything to where it was.
        """
        numbers = (self.path / f"set-aside-{number}" for number in itertools.count(1))
        place = next(place for place in numbers if not os.path.lexists(place))

        def move(path: Path) -> None:
            name = f"{path.name}.txt" if path.name == "config.json" else path.name
            path.rename(place / name)

        self.check_lock()
        with plain_disk_errors(place):
            place.mkdir()
        self._remove(move)
        return place

    @contextmanager
    def lock(self, until: float = 0.0) -> Iterator[None]:
        """Keeps every other process, and every other lock() of this one, out; the system frees it when we die.

        If another has it, waits for it until that moment of `time.monotonic()`.
        """
        path = self.path / "lock"
        with plain_disk_errors(path):
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = self._acquire(until)
        try:
            with plain_disk_errors(path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
            _held[self.path] = descriptor
            yield
        finally:
            if _held.get(self.path) == descriptor:
                del _held[self.path]
            os.close(descriptor)

    def check_lock(self) -> None:
        """Raises RunInUseError if this process has locked the run and the lock was deleted since: another may have
        begun to work on it. Everything that writes here asks first."""
        descriptor = _held.get(self.path)
        if descriptor is None:
            return
        with plain_disk_errors(self.path / "lock"):
            is_ours = _is_at(descriptor, self.path / "lock")
        if not is_ours:
            raise RunInUseError(
                f"{shown_path(self.path / 'lock')} was deleted while this process worked on the run, and another may "
                "have begun since: nothing more is written; start the same command again to go on"
            )

    def held_by(self) -> str | None:
        """The machine whose process holds the lock, as far as the file system tells; None if none does."""
        with suppress(OSError):
            descriptor = open_regular(self.path / "lock", os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _holder(descriptor)[1] or "unknown"
            finally:
                os.close(descriptor)
        return None

    def last_held_by(self) -> str | None:
        """The machine whose process was the last to hold the lock; None if nobody knows."""
        with suppress(OSError):
            descriptor = open_regular(self.path / "lock", os.O_RDONLY | os.O_NOFOLLOW)
            try:
                return _holder(descriptor)[1] or None
            finally:
                os.close(descriptor)
        return None

    def append_row(self, row: Row) -> None:
        """Adds the row of a finished task, completely or not at all. NaN and infinities become null."""
        assert "task" in row, "trim_rows needs to know the task of each row"
        line = row_line(row)
        with plain_disk_errors(self._rows):
            descriptor = open_regular(self._rows, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            try:
                self.check_lock()
                self._append(descriptor, line)
            finally:
                os.close(descriptor)

    def append_monitor(self, row: Row) -> None:
        """Adds what a monitor saw at the end of a task; a task that is made again is there twice."""
        path = self.path / "monitor.jsonl"
        with plain_disk_errors(path):
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            try:
                self.check_lock()
                self._append(descriptor, row_line(row))
            finally:
                os.close(descriptor)

    def monitor_rows(self) -> dict[int, Row]:
        """What a monitor saw at the end of each task, by the task's number; the last word counts."""
        path = self.path / "monitor.jsonl"
        if not path.exists():
            return {}
        lines = complete_lines(read_file(path, MOST_BYTES)).splitlines()
        rows = [json.loads(line) for line in lines]
        return {row["task"]: row for row in rows}

    def rows(self) -> list[Row]:
        """The rows of the finished tasks, none missing; a torn last line is none."""
        return parse_rows(self._rows_data(), self._rows)

    def trim_rows(self, tasks: int) -> None:
        """Drops what is not a row of the first `tasks` tasks: after a resume from there the others are run again."""
        data = self._rows_data()
        parse_rows(data, self._rows)
        kept = first_lines(data, tasks)
        # What is a link becomes a file: rows are added to it.
        if kept != data or self._rows.is_symlink():
            self._write("rows.jsonl", kept)

    def cost(self) -> float:
        """Seconds of one core that the run has taken; 0 if nobody knows."""
        with suppress(RunFolderError):  # it is not worth stopping for
            return float(self._read_json("cost.json", COST)["core_seconds"])
        return 0.0

    def add_cost(self, seconds: float) -> None:
        """Note that the run has taken more time."""
        self._write_json("cost.json", {"core_seconds": round(self.cost() + seconds, 3)})

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint after the rows that are there; it and the one before it are kept."""
        return self._save(checkpoint, self.config(), self._rows_data())

    def load(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The newest intact checkpoint, None if there is none; each damaged one is warned of.

        It is this run's, its rows are there as they were, and every byte of it is verified; else RunFolderError.
        """
        _checkpoint.forget_written(self.path)
        run = self._digest()

        def read(path: Path) -> tuple[Header, Checkpoint]:
            header, checkpoint = _checkpoint.read_checkpoint(path)
            self._check_own(header, run)
            return header, checkpoint

        if (found := _checkpoint.read_newest(self.path, read, warn)) is None:
            return None
        header, checkpoint = found
        self._check_rows(header, self._rows_data())
        return checkpoint

    def snapshot(self, warn: Callable[[str], None] = lambda message: None) -> Snapshot:
        """What the folder says but for its tensors, which are not read: for those who look at many runs.

        The last checkpoint is this run's, and its rows are there as they were; else RunFolderError.
        """
        config, manifest = self.config(), self.manifest()
        header = self._header(_run_digest(config), warn)
        data = self._rows_data()  # later than the checkpoint, which comes after its rows
        if header is not None:
            self._check_rows(header, data)
        position = None if header is None else header.position
        return Snapshot(config, manifest, position, parse_rows(data, f"{self.path}/rows.jsonl"), self.cost())

    def peek(self) -> dict[str, Any] | None:
        """The position of this run's last checkpoint, for those who only want to know how far it is; None if there is
        none, or something is wrong with it, which `load` and `snapshot` say."""
        with suppress(RunFolderError):
            header = self._header(self._digest(), lambda message: None)
            return None if header is None else header.position
        return None

    @property
    def has_network(self) -> bool:
        """Whether it was trained here, and not imported."""
        position = self.peek()
        return position is not None and "recorded" not in position

    def _remove(self, remove: Callable[[Path], object]) -> None:
        """Takes the run's files away: first what makes the folder a run, at last its checkpoints."""
        self.check_lock()
        with plain_disk_errors(self.path):
            names = [path.name for path in self.path.iterdir()]
            others = (_checkpoint.PIECE_NAME, re.compile("|".join(map(re.escape, _TEMPORARIES))))
            own = [name for name in _OWN_FILES if name in names]
            own += [name for name in sorted(names) if any(pattern.fullmatch(name) for pattern in others)]
            own += [name for name in sorted(names) if _checkpoint.CHECKPOINT_NAME.fullmatch(name)]
            for name in own:
                if (self.path / name).is_dir() and not (self.path / name).is_symlink():
                    raise IsADirectoryError(errno.EISDIR, f"{name} is a folder")
            for number, name in enumerate(own):
                remove(self.path / name)
                if number == 0 or name == own[-1]:
                    sync_folder(self.path)

    @property
    def _rows(self) -> Path:
        return self.path / "rows.jsonl"

    def _rows_data(self) -> bytes:
        try:
            return read_file(f"{self.path}/rows.jsonl", MOST_BYTES)
        except FileMissingError:
            return b""

    def _append(self, descriptor: int, line: bytes) -> None:
        size = end = os.fstat(descriptor).st_size
        if size + len(line) > MOST_BYTES:
            raise OSError(f"it would have more than {MOST_BYTES:,} bytes")
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            end = len(complete_lines(read_bytes(descriptor, size)))
            os.ftruncate(descriptor, end)  # A torn line would swallow this one.
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
            if end == 0:
                sync_folder(self.path)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, end)
            raise

    def _save(self, checkpoint: Checkpoint, config: dict[str, Any], rows: bytes) -> Path:
        self.check_lock()
        if problem := POSITION.mismatch(checkpoint.position, "position"):
            raise ValueError(f"a checkpoint cannot be saved: {problem}")
        digest = rows_digest(rows, checkpoint.position["task"])
        return _checkpoint.save(self.path, checkpoint, run=_run_digest(config), rows=digest)

    def _digest(self) -> str | None:
        """What its checkpoints say whose they are; None as long as nothing says what run it is."""
        try:
            return _run_digest(self.config())
        except FileMissingError:
            return None

    def _header(self, run: str | None, warn: Callable[[str], None]) -> Header | None:
        def read(path: Path) -> Header:
            header = _checkpoint.read_header(path)
            self._check_own(header, run)
            return header

        return _checkpoint.read_newest(self.path, read, warn)

    def _check_own(self, header: Header, run: str | None) -> None:
        if problem := POSITION.mismatch(header.position, "position"):
            raise DamagedError(f"checkpoint {shown_path(header.path)} is refused: {problem}")
        # A run that was not recorded, or deleted, to the end has no config.json.
        if run is None and "recorded" not in header.position:
            raise CheckpointError(
                f"{shown_path(self.path)} has checkpoints but no config.json; restore it or delete the folder to start "
                "the run anew"
            )
        if run not in (None, header.run):
            raise CheckpointError(
                f"checkpoint {shown_path(header.path)} is that of another run, or config.json was changed; put what "
                "belongs there back, or delete the folder to start the run anew"
            )

    def _check_rows(self, header: Header, data: bytes) -> None:
        tasks, there = header.position["task"], data.count(b"\n")
        if there >= tasks and rows_digest(data, tasks) == header.rows:
            return
        parse_rows(data, self._rows)  # which may know the line
        if there < tasks:
            raise RunFolderError(
                f"{shown_path(self.path)} has {there} rows, but its checkpoint comes after {tasks} tasks; "
                "restore rows.jsonl or delete the folder to start the run anew"
            )
        raise RunFolderError(
            f"{shown_path(self._rows)} was changed after {shown_path(header.path.name)} was written; {HINT}"
        )

    def _acquire(self, until: float) -> int:
        """The descriptor of the lock, which is ours now. A lock is never deleted by us, but may be by others."""
        while True:
            descriptor = open_regular(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
            is_ours = False
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Whoever locked a file that was deleted since has locked what nobody else can see.
                is_ours = _is_at(descriptor, self.path / "lock")
                if is_ours:
                    return descriptor
            except BlockingIOError:
                if time.monotonic() >= until:
                    pid, host = _holder(descriptor)
                    who = f"pid {pid or 'unknown'}" + (f" on {host}" if host not in ("", socket.gethostname()) else "")
                    raise RunInUseError(
                        f"another process ({who}) is working on {shown_path(self.path)}; wait for it or stop it"
                    ) from None
            finally:
                if not is_ours:
                    os.close(descriptor)
            time.sleep(0.05)

    def _read_json(self, name: str, schema: Schema) -> Any:
        return read_json(f"{self.path}/{name}", schema, hint=_JSON_HINT)

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        self._write(name, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())

    def _write(self, name: str, data: bytes) -> None:
        self.check_lock()
        with plain_disk_errors(self.path / name):
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / name, data, temporary=self.path / f"{name}.tmp")


def _run_digest(config: dict[str, Any]) -> str:
    """What a checkpoint says whose it is: all that defines the run, whatever its file looks like."""
    return hashlib.sha256(_CANONICAL.encode(config).encode()).hexdigest()


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> tuple[str, str]:
    """Process and machine that a lock names; empty if it does not."""
    text = shown_path(os.pread(descriptor, 1_000, 0).decode(errors="replace").strip())
    pid, _, host = text.partition(" ")
    return pid, host


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
