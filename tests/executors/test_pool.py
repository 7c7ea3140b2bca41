"""Worker processes, and which work each of them gets."""

import os

import pytest
import torch

from adalin.executors import _pool
from adalin.executors._pool import dearest_first
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


def test_the_dearest_run_comes_first_and_among_equals_those_on_the_same_data_follow_each_other() -> None:
    short = [define("random-label-mnist", method, seed) for method in ("adalin", "tanh") for seed in (4, 3)]
    long = [define("random-label-mnist", "adalin", seed, tasks=20) for seed in (3, 4)]
    ordered = dearest_first(short + long)
    assert ordered[:2] == long
    assert [run.seed for run in ordered[2:]] == [3, 3, 4, 4]
    costs = dict.fromkeys(short, 100.0) | dict.fromkeys(long, 1.0)
    assert dearest_first(short + long, costs)[4:] == long
