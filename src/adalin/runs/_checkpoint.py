"""Exact checkpoints: safetensors files that say whose they are and of which every byte is verified.

    checkpoint-COUNTER-HASH.safetensors
        8 bytes    length of the header
        header     JSON: where each tensor is, and under "__metadata__"
                       position    where the run is
                       run         whose it is: SHA-256 of what defines the run
                       rows        SHA-256 of the rows of the tasks before it
                       pieces      names of the other files that it counts on
                       tensors     SHA-256 of all that follows
                       bytes       how many that are
        tensors

HASH is the SHA-256 of the header with its length. So the name vouches for the header and the header for the tensors:
who only wants to know how far a run is need not read them. safetensors alone lets most flipped bytes through. The file
stays one that other tools can read, and nothing is ever unpickled.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from adalin.runs._disk import (
    FileMissingError,
    RunFolderError,
    open_regular,
    plain_disk_errors,
    plain_read_errors,
    read_bytes,
    write_atomically,
)
from adalin.runs._paths import shown_path
from adalin.runs._schema import Schema

CHECKPOINT_NAME = re.compile(r"checkpoint-([0-9]{8,18})-([0-9a-f]{64})\.safetensors")
PIECE_NAME = re.compile(r"replay-([0-9]{10})-([0-9]{10})-([0-9a-f]{64})\.safetensors")
"""Files of a run that hold what is too large to be written with each checkpoint: first item, end, SHA-256."""
TEMPORARY = "checkpoint.tmp"

_MOST_HEADER_BYTES = 16_000_000
_USUAL_HEADER_BYTES = 8_192
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGESTS = ("run", "rows", "tensors")
_METADATA = Schema({"position": str, "pieces": str, "bytes": str} | dict.fromkeys(_DIGESTS, str))
_OBJECT, _NAMES = Schema({}), Schema([str])

# The file that this process wrote last to a folder, with its size and time: save() need not hash it again to trust it.
_last_written: dict[Path, tuple[Path, int, int]] = {}

T = TypeVar("T")


class CheckpointError(RunFolderError):
    """A checkpoint cannot be written, or none of those present can be trusted."""


class DamagedError(CheckpointError):
    """A file is not what was written; the checkpoint before it may be."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped."""

    tensors: dict[str, Tensor]
    """Comes back on the CPU, in the order of the names."""
    position: dict[str, Any]
    """Small and made of JSON: string keys, lists rather than tuples. Floats, also infinite, come back to the bit."""
    pieces: tuple[str, ...] = ()
    """Names of the other files in the folder that it counts on, such as those of a replay buffer."""


@dataclass(frozen=True)
class Header:
    """What a checkpoint says without its tensors."""

    path: Path
    position: dict[str, Any]
    run: str
    rows: str
    pieces: tuple[str, ...]
    tensors: str
    start: int
    """Place in the file where the tensors begin."""
    size: int
    """Length of the whole file."""


def save(folder: Path, checkpoint: Checkpoint, *, run: str, rows: str) -> Path:
    """Writes a checkpoint and then deletes all but it and the newest intact one before it.

    A process killed at any moment leaves the folder with a complete checkpoint that is not older than the last one
    returned from here. One process at a time may save to a folder.
    """
    digest, data = _serialise(checkpoint, run, rows)
    older = _newest_first(folder)
    # Damaged files count, so that nothing written now sorts before them.
    counter = 1 + (_counter(older[0].name) if older else 0)
    path = folder / f"checkpoint-{counter:08d}-{digest}.safetensors"
    with plain_disk_errors(folder, CheckpointError):
        # One name for all temporary files: what a killed process left is overwritten.
        write_atomically(path, data, temporary=folder / TEMPORARY)
        previous = next((old for old in older if _is_intact(old)), None)
        for old in older:
            if old != previous:
                old.unlink()
        _last_written[folder] = _seal(path)
    return path


def read_newest(folder: Path, read: Callable[[Path], T], warn: Callable[[str], None]) -> T | None:
    """What `read` makes of the newest checkpoint that it does not find damaged; None if there are none.

    Each newer one that is damaged is warned of.
    """
    while True:
        paths = _newest_first(folder)
        for path in paths:
            try:
                return read(path)
            except FileMissingError:
                if os.path.lexists(path):
                    warn(f"checkpoint {shown_path(path)} is a link to nothing")
                    continue
                break  # its run has saved twice since: look again
            except DamagedError as error:
                hint = "trying the checkpoint before it" if path != paths[-1] else "there is none before it"
                warn(f"{error}; {hint}")
        else:
            if not paths:
                return None
            raise CheckpointError(
                f"all checkpoints in {shown_path(folder)} are damaged; delete the folder to start the run anew"
            )


def read_header(path: Path) -> Header:
    """What a checkpoint says without its tensors, of which no more than the number of bytes is verified."""
    with plain_read_errors(path, DamagedError):
        descriptor = open_regular(path)
        try:
            return _header(path, descriptor)
        finally:
            os.close(descriptor)


def read_checkpoint(path: Path) -> tuple[Header, Checkpoint]:
    """All of a checkpoint, of which every byte is verified."""
    with plain_read_errors(path, DamagedError):
        descriptor = open_regular(path)
        try:
            header = _header(path, descriptor)
            os.lseek(descriptor, 0, os.SEEK_SET)
            data = read_bytes(descriptor, header.size)
        finally:
            os.close(descriptor)
    if hashlib.sha256(memoryview(data)[header.start :]).hexdigest() != header.tensors:
        raise _damaged(path, "its tensors do not match the hash in its header")
    try:
        tensors = safetensors.torch.load(data)
    except (SafetensorError, KeyError, ValueError) as error:  # KeyError: a dtype that this torch lacks
        raise _damaged(path, f"it cannot be read ({' '.join(str(error).split())})") from error
    return header, Checkpoint(dict(sorted(tensors.items())), header.position, header.pieces)


def forget_written(folder: Path) -> None:
    """Makes the next save() verify the checkpoints that it keeps: whatever a load refuses, it must refuse too."""
    _last_written.pop(folder, None)


def _newest_first(folder: Path) -> list[Path]:
    try:
        # Not glob, for which a folder that may not be read is an empty one: its run would start anew.
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if CHECKPOINT_NAME.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"cannot read {shown_path(folder)}: {error.strerror or error}") from error
    return [folder / name for name in sorted(names, key=_counter, reverse=True)]


def _counter(name: str) -> int:
    return int(name.split("-")[1])


def _serialise(checkpoint: Checkpoint, run: str, rows: str) -> tuple[str, bytes]:
    """The hash for the name of the file, and what is in it."""
    # safetensors refuses tensors that overlap or are not contiguous; a copy of each is neither.
    copies = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in checkpoint.tensors.items()
    }
    plain = safetensors.torch.save(copies)
    start = 8 + int.from_bytes(plain[:8], "little")
    tensors = memoryview(plain)[start:]
    metadata = {
        "position": json.dumps(checkpoint.position),
        "run": run,
        "rows": rows,
        "pieces": json.dumps(checkpoint.pieces),
        "tensors": hashlib.sha256(tensors).hexdigest(),
        "bytes": str(len(tensors)),
    }
    text = json.dumps({"__metadata__": metadata, **json.loads(plain[8:start])}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors are aligned
    assert len(text) <= _MOST_HEADER_BYTES, "a position is small"
    head = len(text).to_bytes(8, "little") + text
    return hashlib.sha256(head).hexdigest(), b"".join((head, tensors))


def _header(path: Path, descriptor: int) -> Header:
    match = CHECKPOINT_NAME.fullmatch(path.name)
    assert match
    data = read_bytes(descriptor, _USUAL_HEADER_BYTES)
    start = 8 + int.from_bytes(data[:8], "little")
    if start > _MOST_HEADER_BYTES:
        raise _damaged(path, "its header has no end")
    if start > len(data):
        data += read_bytes(descriptor, start - len(data))
    head = data[:start]
    if hashlib.sha256(head).hexdigest() != match[2]:
        if _is_of_older_version(head):
            raise CheckpointError(
                f"checkpoint {shown_path(path)} was written by an older version of adalin and does not say whose it "
                "is; delete the folder to start the run anew, or go on with that version"
            )
        raise _damaged(path, "its header does not match the hash in its name")
    try:
        return _parsed(path, head, os.fstat(descriptor).st_size)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"it cannot be read ({error or 'nested too deeply'})") from error


def _parsed(path: Path, head: bytes, size: int) -> Header:
    """A header whose hash is right; ValueError if it was made by somebody else."""
    content = json.loads(head[8:])
    metadata = content.get("__metadata__") if isinstance(content, dict) else None
    if problem := _METADATA.mismatch(metadata, "__metadata__"):
        raise ValueError(problem)
    assert metadata is not None
    position, pieces = json.loads(metadata["position"]), json.loads(metadata["pieces"])
    if problem := _OBJECT.mismatch(position, "position") or _NAMES.mismatch(pieces, "pieces"):
        raise ValueError(problem)
    digests = {name: metadata[name] for name in _DIGESTS}
    if not all(map(_DIGEST.fullmatch, digests.values())):
        raise ValueError("a SHA-256 in it is none")
    if not all(map(PIECE_NAME.fullmatch, pieces)):
        raise ValueError("pieces are not names of pieces")
    if metadata["bytes"] != str(size - len(head)):
        raise ValueError(f"{size - len(head):,} bytes follow its header, and not {metadata['bytes'][:20]}")
    return Header(path, position, pieces=tuple(pieces), start=len(head), size=size, **digests)


def _is_of_older_version(head: bytes) -> bool:
    """Whether it is the header of a checkpoint whose name is the hash of the whole file."""
    try:
        metadata = json.loads(head[8:])["__metadata__"]
        return list(metadata) == ["position"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _damaged(path: Path, why: str) -> DamagedError:
    return DamagedError(f"checkpoint {shown_path(path)} is refused: {why}")


def _is_intact(path: Path) -> bool:
    try:
        if _last_written.get(path.parent) == _seal(path):
            return True
        read_checkpoint(path)
    except (OSError, RunFolderError):
        return False
    return True


def _seal(path: Path) -> tuple[Path, int, int]:
    status = path.stat()
    return path, status.st_size, status.st_mtime_ns
