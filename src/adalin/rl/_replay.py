"""The replay buffer, in memory and on disk.

A run's folder has the buffer in pieces, each written once when a checkpoint is made:

RUN/replay-START-END-HASH.safetensors    transitions START to END - 1, counted from the first ever made

A checkpoint costs what is new since the last one, not the whole buffer. Pieces carry the SHA-256 of their content in
their name, as checkpoints do.
"""

import hashlib
import re
from pathlib import Path

import safetensors.torch
import torch
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from torch import Tensor

from adalin.rl._sac import Batch
from adalin.training._disk import plain_disk_errors, write_atomically
from adalin.training._run_folder import CheckpointError

_NAME = re.compile(r"replay-(\d{10})-(\d{10})-([0-9a-f]{64})\.safetensors")


class ReplayBuffer:
    """The last `size` transitions; a row is (observation, action, reward, terminated, next observation)."""

    def __init__(self, size: int, observation: int, action: int) -> None:
        self._widths = (observation + action, 1, 1, observation)
        self._observation = observation
        self._rows = torch.empty(size, sum(self._widths))  # memory is taken where it is written
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

    def save(self, folder: Path, *, keep_from: int) -> None:
        """Write what is not on disk yet, and delete what nobody needs who goes on from transition `keep_from`."""
        pieces = _pieces(folder)
        start = max((end for _, end, _ in pieces), default=0)
        start = max(start, self.added - len(self._rows))
        if start < self.added:
            rows = self._rows[torch.arange(start, self.added) % len(self._rows)]
            data = safetensors.torch.save({"transitions": rows})
            name = f"replay-{start:010d}-{self.added:010d}-{hashlib.sha256(data).hexdigest()}.safetensors"
            with plain_disk_errors(folder, CheckpointError):
                write_atomically(folder / name, data, temporary=folder / "replay.tmp")
        for _, end, path in pieces:
            if end <= keep_from - len(self._rows):
                path.unlink()

    def load(self, folder: Path, added: int) -> None:
        """As it was after so many transitions; pieces that were written later, before a process died, are deleted."""
        self.added = oldest = max(0, added - len(self._rows))
        for start, end, path in _pieces(folder):
            if start >= added:
                path.unlink()
            elif end > oldest:
                if start > self.added:
                    break
                rows = _read(path)[max(0, self.added - start) :]
                numbers = torch.arange(self.added, end) % len(self._rows)
                self._rows[numbers] = rows
                self.added = end
        if self.added != added:
            raise CheckpointError(
                f"{folder} lacks transitions {self.added} to {added} of its replay buffer; restore the files "
                "replay-*.safetensors or delete the folder to start the run anew"
            )


def _pieces(folder: Path) -> list[tuple[int, int, Path]]:
    """(start, end, path) of those on disk, the oldest first."""
    found = ((_NAME.fullmatch(path.name), path) for path in sorted(folder.glob("replay-*")))
    return [(int(match[1]), int(match[2]), path) for match, path in found if match]


def _read(path: Path) -> Tensor:
    match = _NAME.fullmatch(path.name)
    assert match
    hint = "restore it or delete the folder to start the run anew"
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != match[3]:
            raise CheckpointError(f"{path} is damaged: its content does not match the hash in its name; {hint}")
        return safetensors.torch.load(data)["transitions"]
    except (OSError, SafetensorError, KeyError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); {hint}") from error
