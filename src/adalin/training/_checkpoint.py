"""Exact checkpoints: safetensors files that carry the SHA-256 of their content in their name.

safetensors alone lets most flipped bytes through. With the hash in the name every damaged file is noticed, and the file
stays one that other tools can read. Nothing is ever unpickled.
"""

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from adalin.training._disk import RunFolderError, plain_disk_errors, write_atomically

_NAME = re.compile(r"checkpoint-(\d{8})-([0-9a-f]{64})\.safetensors")

# The file that this process wrote last to a folder, with its size and time: save() need not hash it again to trust it.
_last_written: dict[Path, tuple[Path, int, int]] = {}


class CheckpointError(RunFolderError):
    """A checkpoint cannot be written, or none of those present can be trusted."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped."""

    tensors: dict[str, Tensor]
    """Comes back on the CPU, in the order of the names."""
    position: dict[str, Any]
    """Small and made of JSON: string keys, lists rather than tuples. Floats, also infinite, come back to the bit."""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes a checkpoint and then deletes all but it and the newest intact one before it.

    A process killed at any moment leaves the folder with a complete checkpoint that is not older than the last one
    returned from here. One process at a time may save to a folder.
    """
    data = _serialise(checkpoint)
    older = _newest_first(folder)
    # Damaged files count, so that nothing written now sorts before them.
    counter = 1 + max((int(path.name.split("-")[1]) for path in older), default=0)
    path = folder / f"checkpoint-{counter:08d}-{hashlib.sha256(data).hexdigest()}.safetensors"
    with plain_disk_errors(folder, CheckpointError):
        # One name for all temporary files: what a killed process left is overwritten.
        write_atomically(path, data, temporary=folder / "checkpoint.tmp")
        previous = next((old for old in older if _is_intact(old)), None)
        for old in older:
            if old != previous:
                old.unlink()
        _last_written[folder] = _seal(path)
    return path


def load(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest intact checkpoint, with a warning for each newer one that is damaged; None if there are none."""
    _last_written.pop(folder, None)  # Whatever is refused here, the next save() must refuse too.
    paths = _newest_first(folder)
    for path in paths:
        try:
            return _read(path)
        except CheckpointError as error:
            warn(f"{error}; " + ("trying the checkpoint before it" if path != paths[-1] else "there is none before it"))
    if paths:
        raise CheckpointError(f"all checkpoints in {folder} are damaged; delete the folder to start the run anew")
    return None


def peek(folder: Path) -> dict[str, Any] | None:
    """The position of the newest checkpoint, read without its tensors and not verified; None if there is none."""
    for path in _newest_first(folder):
        with suppress(OSError, ValueError, KeyError), path.open("rb") as file:
            length = min(int.from_bytes(file.read(8), "little"), path.stat().st_size)  # a damaged one asks for anything
            header = json.loads(file.read(length))
            position: dict[str, Any] = json.loads(header["__metadata__"]["position"])
            return position
    return None


def _newest_first(folder: Path) -> list[Path]:
    try:
        # Not glob, for which a folder that may not be read is an empty one: its run would start anew.
        return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"cannot read {folder}: {error.strerror or error}") from error


def _serialise(checkpoint: Checkpoint) -> bytes:
    # safetensors refuses tensors that overlap or are not contiguous; a copy of each is neither.
    tensors = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in checkpoint.tensors.items()
    }
    return safetensors.torch.save(tensors, {"position": json.dumps(checkpoint.position)})


def _read(path: Path) -> Checkpoint:
    match = _NAME.fullmatch(path.name)
    assert match
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != match[2]:
            raise CheckpointError(f"checkpoint {path} is refused: its content does not match the hash in its name")
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        position = json.loads(header["__metadata__"]["position"])
    # KeyError: a dtype that this torch lacks, or a safetensors file of somebody else.
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"checkpoint {path} is refused: it cannot be read ({error})") from error
    return Checkpoint(dict(sorted(tensors.items())), position)


def _is_intact(path: Path) -> bool:
    if _last_written.get(path.parent) == _seal(path):
        return True
    try:
        _read(path)
    except CheckpointError:
        return False
    return True


def _seal(path: Path) -> tuple[Path, int, int]:
    status = path.stat()
    return path, status.st_size, status.st_mtime_ns
