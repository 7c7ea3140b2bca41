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
def seeded(seed: int, *purpose: str | int, device: str = "cpu") -> Iterator[None]:
    """torch's global random state, for what draws from it (initialisers, dropout); the caller's is put back."""
    generators = [torch.default_generator]
    if device != "cpu":
        torch.cuda.init()
        generators.append(torch.cuda.default_generators[torch.device(device).index or 0])
    before = [one.get_state() for one in generators]
    for one in generators:
        one.manual_seed(derive(seed, *purpose))
    try:
        yield
    finally:
        for one, state in zip(generators, before, strict=True):
            one.set_state(state)
