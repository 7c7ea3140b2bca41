"""Random state from names instead of history.

Each use of randomness has a seed of its own, made from the run's seed and what it is for: ("order", task, epoch),
("init", task), ("noise", task, step). Nothing needs to be saved to resume, measuring cannot disturb training, and a
run's numbers do not depend on what runs beside it.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose."""
    text = ":".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, *purpose))


@contextmanager
def seeded(seed: int, *purpose: str | int) -> Iterator[None]:
    """torch's global random state, for what draws from it (initialisers); the caller's is put back."""
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(derive(seed, *purpose))
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
