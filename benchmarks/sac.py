"""SAC's update and its steps in an environment, against CleanRL's plain torch and SBX (JAX); and over processes.

Nets of 256-256, batch 256, observations and actions of HalfCheetah, one thread, CPU time. Each update of any of them is
one of the critics and, on average, one of the actor.
"""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from adalin.rl import SACRun
from adalin.rl._build import make_networks
from adalin.rl._loop import CHUNK, AgentLoop
from adalin.rl._replay import ReplayBuffer
from adalin.rl._sac import SAC, Batch
from adalin.runs import Checkpoint, RunFolder, Session, read_run
from benchmarks._measure import (
    Result,
    at_least,
    at_most,
    by_isa,
    in_turns,
    missing_rival,
    noted,
    one_thread,
    ratio,
    skipped,
)
from benchmarks.plain_sac import PlainSAC

ENV, OBSERVATIONS, ACTIONS, BATCH = "HalfCheetah-v4", 17, 6, 256
UPDATES = 20
"""Per call: an even number, so that the actor has its turn in each."""
REPLAY_RATIO = 4


def measure() -> Iterator[Result]:
    no_sbx = missing_rival("jax", "sbx")
    with one_thread():
        yield from _updates("baseline", no_sbx)
        yield from _updates("adalin", "it has no AdaLin")
        yield from _steps(no_sbx)
    yield _checkpoint()
    yield _scaling()


def _updates(method: str, no_sbx: str) -> Iterator[Result]:
    plain, ours, batch = PlainSAC(OBSERVATIONS, ACTIONS, method), make_agent(method), make_batch()

    def call(agent: SAC | PlainSAC) -> None:
        for _ in range(UPDATES):
            agent.update(batch)

    subjects: dict[str, Callable[[], object]] = {"plain": lambda: call(plain), "ours": lambda: call(ours)}
    if not no_sbx:
        from benchmarks import sbx_sac

        subjects["sbx"] = sbx_sac.updates(OBSERVATIONS, ACTIONS, UPDATES)
    times = in_turns(subjects, rounds=20, calls=1)
    for name in subjects:
        yield noted(f"SAC, {method}: {name}, fastest", UPDATES / min(times[name]), "updates/s")
    faster = ratio(times, "plain", "ours")
    bar = by_isa(3.0, 2.2)
    yield at_least(bar, f"SAC's update, {method}, fastest", faster.fastest, "x CleanRL's")
    yield at_least(bar, f"SAC's update, {method}, median", faster.median, "x CleanRL's")
    name = f"SAC's update, {method}, fastest"
    if no_sbx:
        yield skipped(1.05, name, "x SBX's", no_sbx)
    else:
        yield at_least(1.05, name, ratio(times, "sbx", "ours").fastest, "x SBX's")


def _steps(no_sbx: str) -> Iterator[Result]:
    """Acting, storing, sampling and learning, with four updates per step."""
    name = f"SAC in {ENV}, replay ratio {REPLAY_RATIO}"
    if missing := missing_rival("gymnasium", "mujoco"):
        yield skipped(1.0, name, "steps/s", missing.replace("rivals", "rl"))
        return
    with tempfile.TemporaryDirectory() as place:
        loop = _make_loop(Path(place))

        def act() -> None:
            for _ in range(CHUNK):
                loop._act()
                loop._learn()
            loop._look()

        for _ in range(2 * BATCH // CHUNK):
            act()
        subjects: dict[str, Callable[[], object]] = {"ours": act}
        if not no_sbx:
            from benchmarks import sbx_sac

            subjects["sbx"] = sbx_sac.steps(ENV, REPLAY_RATIO, CHUNK)
        times = in_turns(subjects, rounds=12, calls=1)
    for subject in subjects:
        yield noted(f"{name}: {subject}, fastest", CHUNK / min(times[subject]), "steps/s")
    if no_sbx:
        yield skipped(1.0, name, "x SBX's", no_sbx)
    else:
        faster = ratio(times, "sbx", "ours")
        yield at_least(1.0, f"{name}, fastest", faster.fastest, "x SBX's")
        yield at_least(1.0, f"{name}, median", faster.median, "x SBX's")


def _make_loop(place: Path) -> AgentLoop:
    run = _run("baseline", replay_ratio=REPLAY_RATIO, learning_starts=BATCH, period=1_000_000)
    folder = RunFolder(place)
    folder.create_or_check(dict(run.config), {"tasks": 1})
    return AgentLoop(run, folder, Checkpoint({}, {}), Session(out=place))


def _run(method: str, **settings: int) -> SACRun:
    return read_run({"benchmark": f"sac-{ENV}", "method": method, "seed": 0, "tasks": 1, **settings})


def make_agent(method: str) -> SAC:
    bound = torch.ones(ACTIONS)
    networks = make_networks(_run(method), OBSERVATIONS, ACTIONS)
    return SAC(*networks, -bound, bound, torch.Generator().manual_seed(0))


def make_batch() -> Batch:
    """Transitions as the replay buffer gives them."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    buffer = ReplayBuffer(BATCH, OBSERVATIONS, ACTIONS)
    for _ in range(BATCH):
        buffer.add(normal(OBSERVATIONS), normal(ACTIONS), float(normal(1)), False, normal(OBSERVATIONS))
    return buffer.sample(BATCH, generator)


def _checkpoint() -> Result:
    """Of a run with a full buffer, once a minute, in which 10,000 steps are made if updates cost nothing."""
    agent, buffer = make_agent("adalin"), ReplayBuffer(1_000_000, OBSERVATIONS, ACTIONS)
    observation, action = torch.zeros(OBSERVATIONS), torch.zeros(ACTIONS)
    times = []
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        folder.create_or_check({"benchmark": "sac-none", "method": "adalin", "seed": 0}, {})
        buffer.added = 1_000_000
        buffer.save(folder.path, keep_from=0)
        for _ in range(5):
            for _ in range(10_000):
                buffer.add(observation, action, 0.0, False, observation)
            start = time.perf_counter()
            buffer.save(folder.path, keep_from=0)
            folder.save(Checkpoint(agent.state(), {"task": 0, "step": 0}))
            times.append(time.perf_counter() - start)
    return at_most(5, "SAC, a checkpoint every minute", 100 * statistics.median(times) / 60, "% of time")


def _work(count: int, place: int) -> float:
    with one_thread(place):
        agent, batch = make_agent("adalin"), make_batch()
        for _ in range(UPDATES):
            agent.update(batch)
        start = time.perf_counter()
        for _ in range(count):
            agent.update(batch)
        return count / (time.perf_counter() - start)


def _scaling() -> Result:
    """Updates per second of two processes at once, against one alone."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(2) as pool:
        alone, together = [], []
        for _ in range(3):
            alone.append(pool.apply(_work, (300, 0)))
            together.append(sum(pool.starmap(_work, ((300, 0), (300, 1)), chunksize=1)))
    return at_least(1.8, "SAC, two processes on two cores", max(together) / max(alone), "x one")
