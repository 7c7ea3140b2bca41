"""Worker processes, and which work each of them gets."""

import os

import pytest
import torch

from adalin.executors import _pool
from adalin.executors._pool import make_stacks
from tiny_runs import define


@pytest.mark.parametrize(("device", "visible"), [("cpu", None), ("cuda", "1"), ("cuda:1", None)])
def test_workers_share_the_cuda_devices_unless_one_is_named(
    device: str, visible: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "before")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    _pool._pin(3, 1_000, device)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible


def test_stacks_are_as_large_as_the_workers_shares_allow_and_the_dearest_come_first() -> None:
    few = [define("random-label-mnist", "adalin", seed) for seed in range(4)]
    many = [define("random-label-mnist", "adalin", seed, tasks=20) for seed in range(4)]
    assert [len(stack) for stack in make_stacks(few, 4)] == [1, 1, 1, 1]
    assert [len(stack) for stack in make_stacks(few + many, 2)] == [2, 2, 4]
    costs = dict.fromkeys(few, 100.0) | dict.fromkeys(many, 1.0)
    stacks = make_stacks(few + many, 2, costs)
    assert [set(stack) <= set(few) for stack in stacks] == [True, True, False]
