"""What `adalin.Monitor` costs at its default cadence: looks as a share of training, and a step between two looks.

In CPU time: the wall clock of the monitor is replaced, so that other work on the machine decides nothing.
"""

import gc
import importlib.util
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

from adalin.methods import Method
from adalin.models import make_model
from adalin.monitor import Monitor, _watched, sb3_callback
from benchmarks._measure import Result, at_most, noted, one_thread, skipped

CPU_TIME = SimpleNamespace(perf_counter=time.process_time)
BAR = 2.0
"""Largest share of the training time that looks may take, in percent: the default budget."""
Step = Callable[[], None]


def measure() -> Iterator[Result]:
    with one_thread():
        for name, make, seconds in (
            ("MLP, batch 16", lambda: _mlp(16), 5.0),
            ("MLP, batch 256", lambda: _mlp(256), 5.0),
            ("ResNet-18, 32 x 32, batch 64", _resnet, 60.0),
        ):
            with patch.object(_watched, "time", CPU_TIME):
                share, looks = _share(make, seconds)
            yield at_most(BAR, f"looks, {name}, {looks} in {seconds:.0f} s", share, "% of training")
        yield noted("a step between two looks, MLP, batch 16", _between(lambda: _mlp(16)), "% more CPU time")
        yield _agent()


def _mlp(batch: int) -> tuple[torch.nn.Module, Step]:
    torch.manual_seed(0)
    return _training(make_model("mlp", (1, 28, 28), 10, Method.parse("baseline").activation), (batch, 1, 28, 28))


def _resnet() -> tuple[torch.nn.Module, Step]:
    torch.manual_seed(0)
    return _training(make_model("resnet18", (3, 32, 32), 10, Method.parse("baseline").activation), (64, 3, 32, 32))


def _training(model: torch.nn.Module, shape: tuple[int, ...]) -> tuple[torch.nn.Module, Step]:
    inputs, labels = torch.rand(shape), torch.randint(10, shape[:1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return model, step


def _share(make: Callable[[], tuple[torch.nn.Module, Step]], seconds: float) -> tuple[float, int]:
    """Share of the time since the first step that looks took, and how many there were."""
    model, step = make()
    for _ in range(3):
        step()
    monitor = Monitor(model)
    end = time.process_time() + seconds
    while time.process_time() < end:
        step()
    share, looks = 100 * monitor.share, len(monitor.looks)
    monitor.close()
    return share, looks


def _between(make: Callable[[], tuple[torch.nn.Module, Step]], steps: int = 300, blocks: int = 15) -> float:
    """How much longer a step takes with a monitor that does not look, fastest blocks of both, in turns."""
    (_, plain), (model, watched) = make(), make()
    monitor = Monitor(model, every=10**9)
    watched()
    times: dict[Any, list[float]] = {plain: [], watched: []}
    gc.collect()
    for _ in range(blocks):
        for step, own in times.items():
            start = time.process_time()
            for _ in range(steps):
                step()
            own.append(time.process_time() - start)
    monitor.close()
    return 100 * (min(times[watched]) / min(times[plain]) - 1)


def _agent(steps: int = 800) -> Result:
    name = "looks, SAC of Stable-Baselines3, actor and two critics"
    if importlib.util.find_spec("stable_baselines3") is None or importlib.util.find_spec("gymnasium") is None:
        return skipped(BAR, name, "% of training", "no stable-baselines3")
    from stable_baselines3 import SAC

    agent = SAC("MlpPolicy", "Pendulum-v1", learning_starts=100, seed=0, device="cpu")
    callback = sb3_callback()
    with patch.object(_watched, "time", CPU_TIME):
        agent.learn(steps, callback=callback)
        share = 100 * callback.monitor.share
    return at_most(BAR, f"{name}, {len(callback.monitor.looks)} looks", share, "% of training")
