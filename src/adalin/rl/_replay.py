"""The replay buffer, in memory and on disk.

A run's folder has the buffer in pieces, each written once when a checkpoint is made:

RUN/replay-START-END-HASH.safetensors    transitions START to END - 1, counted from the first ever made

A checkpoint costs what is new since the last one, not the whole buffer. Pieces carry the SHA-256 of their content in
their name, and a checkpoint lists the names of its pieces: others are not used, whatever is in them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from torch import Tensor

from adalin.rl._sac import Batch
from adalin.runs import (
    PIECE_NAME,
    CheckpointError,
    RunFolderError,
    plain_disk_errors,
    read_file,
    shown_path,
    write_atomically,
)

_HEADER_BYTES = 1_000
"""More than what is in a piece beside its transitions."""


@dataclass(frozen=True)
class _Piece:
    """Transitions `start` to `end` - 1, in a file."""

    name: str
    start: int
    end: int
    digest: str

    @classmethod
    def parse(cls, name: str) -> "_Piece | None":
        """What a name says; None if it is no piece's."""
        match = PIECE_NAME.fullmatch(name)
        return match and cls(name, int(match[1]), int(match[2]), match[3])


class ReplayBuffer:
    """The last `size` transitions; a row is (observation, action, reward, terminated, next observation)."""

    def __init__(self, size: int, observation: int, action: int) -> None:
        self._widths = (observation + action, 1, 1, observation)
        self._observation = observation
        self._rows = torch.empty(size, sum(self._widths))  # memory is taken where it is written
        self._pieces: list[_Piece] = []
        """Files on disk that have a part of it, the oldest first."""
        self.added = 0
        """Transitions ever added."""

    def __len__(self) -> int:
        return min(self.added, len(self._rows))

    def add(
        self, observation: ArrayLike, action: ArrayLike, reward: float, terminated: bool, next_observation: ArrayLike
    ) -> None:
        """Add one transition, in place of the oldest if the buffer is full."""
        row = self._rows[self.added % len(self._rows)]
        pair, rewards, ends, after = row.split(self._widths)
        pair[: self._observation] = torch.as_tensor(observation)
        pair[self._observation :] = torch.as_tensor(action)
        rewards[0], ends[0] = float(reward), float(terminated)
        after.copy_(torch.as_tensor(next_observation))
        self.added += 1

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """Transitions chosen at random, with replacement."""
        chosen = torch.randint(len(self), (count,), generator=generator)
        return Batch(*self._rows[chosen].split(self._widths, 1))

    def spread_pairs(self, count: int) -> Tensor:
        """(count or fewer, observations + actions) of transitions that are evenly spread over the buffer."""
        chosen = torch.linspace(0, len(self) - 1, min(count, len(self))).long()
        return self._rows[chosen, : self._widths[0]]

    def save(self, folder: Path, *, keep_from: int) -> tuple[str, ...]:
        """Write what is not on disk yet, and delete what nobody needs who goes on from transition `keep_from`.

        Returns the names of the pieces that a checkpoint made now counts on.
        """
        oldest = self.added - len(self)
        start = max(self._pieces[-1].end if self._pieces else 0, oldest)
        if start < self.added:
            rows = self._rows[torch.arange(start, self.added) % len(self._rows)]
            data = safetensors.torch.save({"transitions": rows})
            digest = hashlib.sha256(data).hexdigest()
            name = f"replay-{start:010d}-{self.added:010d}-{digest}.safetensors"
            with plain_disk_errors(folder, CheckpointError):
                write_atomically(folder / name, data, temporary=folder / "replay.tmp")
            self._pieces.append(_Piece(name, start, self.added, digest))
        self._pieces = [piece for piece in self._pieces if piece.end > oldest]
        own = {piece.name for piece in self._pieces}
        with plain_disk_errors(folder, CheckpointError):
            for piece in _pieces_in(folder):
                if piece.name not in own and piece.end <= keep_from - len(self._rows):
                    (folder / piece.name).unlink()
        return tuple(piece.name for piece in self._pieces)

    def load(self, folder: Path, added: int, names: Sequence[str]) -> None:
        """As it was after so many transitions, from the pieces that its checkpoint names.

        Others that have a part of it are deleted: they were written later, before a process died, or come from another
        run. Those with older transitions only stay, as the checkpoint before this one may need them.
        """
        oldest = max(0, added - len(self._rows))
        pieces = sorted((piece for piece in map(_Piece.parse, names) if piece), key=lambda piece: piece.start)
        filled = oldest
        for piece in pieces:
            if not piece.start <= filled < piece.end <= added:
                break
            rows = _read(folder / piece.name, piece, self._rows.shape[1])[filled - piece.start :]
            self._rows[torch.arange(filled, piece.end) % len(self._rows)] = rows
            filled = piece.end
        if filled != added or len(pieces) != len(names):
            raise CheckpointError(
                f"the checkpoint in {shown_path(folder)} names no pieces with transitions {filled} to {added} of its "
                "replay buffer; delete the folder to start the run anew"
            )
        self.added, self._pieces = added, pieces
        with plain_disk_errors(folder, CheckpointError):
            for piece in _pieces_in(folder):
                if piece.name not in names and piece.end > oldest:
                    (folder / piece.name).unlink()


def _pieces_in(folder: Path) -> list[_Piece]:
    """Those on disk, the oldest first, whoever wrote them."""
    return [piece for path in sorted(folder.iterdir()) if (piece := _Piece.parse(path.name))]


def _read(path: Path, piece: _Piece, width: int) -> Tensor:
    """The transitions of a piece, of which every byte is verified."""
    hint = "restore it or delete the folder to start the run anew"
    shape = (piece.end - piece.start, width)
    try:
        data = read_file(path, 4 * shape[0] * shape[1] + _HEADER_BYTES)
        if hashlib.sha256(data).hexdigest() != piece.digest:
            raise CheckpointError(f"{shown_path(path)} is damaged: its content does not match the hash in its name")
        rows = safetensors.torch.load(data)["transitions"]
        if rows.dtype != torch.float32 or rows.shape != shape:
            raise CheckpointError(f"{shown_path(path)} is damaged: it does not have {shape[0]} x {shape[1]} numbers")
    except RunFolderError as error:
        raise CheckpointError(f"{error}; {hint}") from error
    except (SafetensorError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{shown_path(path)} cannot be read ({reason}); {hint}") from error
    return rows
