"""The networks of runs."""

import torch
from torch import Tensor

from adalin.runs import kind_of
from adalin.streams import get_benchmark
from adalin.supervised._build import make_network
from synthetic_data import synthetic


def test_the_new_networks_of_scratch_differ_from_task_to_task_and_from_seed_to_seed_only() -> None:
    stream = get_benchmark("permuted-mnist").stream(synthetic("mnist"), seed=3, images=20, scaling="unit")

    def first_weight(seed: int, task: int, method: str = "scratch") -> Tensor:
        run = kind_of("permuted-mnist").example("permuted-mnist", method, seed)
        return make_network(run, stream, "init", task)[1].weight

    assert torch.equal(first_weight(3, 1), first_weight(3, 1))
    assert torch.equal(first_weight(3, 1), first_weight(3, 1, "tanh+scratch"))
    assert not torch.equal(first_weight(3, 1), first_weight(3, 2))
    assert not torch.equal(first_weight(3, 1), first_weight(4, 1))
