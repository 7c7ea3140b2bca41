"""SAC's update against the same update as CleanRL writes it, and over processes.

The plain update has two separate critics, torch.distributions, torch.optim.Adam and eager autograd; nets of 256-256,
batch 256, observations and actions of HalfCheetah, one thread.
"""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.rl._build import make_networks
from adalin.rl._replay import ReplayBuffer
from adalin.rl._sac import SAC, Batch
from adalin.runs import Checkpoint, RunFolder, read_run
from benchmarks._measure import Result, at_least, at_most, side_by_side
from benchmarks.training import PlainAdaLin

OBSERVATIONS, ACTIONS, BATCH, HIDDEN = 17, 6, 256, 256
UPDATES = 20
"""Per call: an even number, so that the actor has its turn in each."""


def measure() -> Iterator[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        for method in ("baseline", "adalin"):
            yield from _update(method)
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
    yield _checkpoint()
    yield _scaling()


def _update(method: str) -> Iterator[Result]:
    plain, ours, batch = PlainSAC(method), make_agent(method), make_batch()

    def both(update: "SAC | PlainSAC") -> None:
        for _ in range(UPDATES):
            update.update(batch)

    subjects = {"plain": lambda: both(plain), "ours": lambda: both(ours)}
    ratio = side_by_side(subjects, "ours", rounds=15, calls=1)["plain"]
    yield at_least(1.6, f"SAC's update, {method}, fastest", ratio.fastest, "x plain")
    yield at_least(1.6, f"SAC's update, {method}, median", ratio.median, "x plain")


def make_agent(method: str) -> SAC:
    run = read_run({"benchmark": "sac-HalfCheetah-v4", "method": method, "seed": 0, "tasks": 2})
    bound = torch.ones(ACTIONS)
    return SAC(*make_networks(run, OBSERVATIONS, ACTIONS), -bound, bound, torch.Generator().manual_seed(0))


def make_batch() -> Batch:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    return Batch(
        normal(BATCH, OBSERVATIONS + ACTIONS), normal(BATCH, 1), torch.zeros(BATCH, 1), normal(BATCH, OBSERVATIONS)
    )


class PlainNetwork(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: str) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.act1, self.act2 = ((nn.ReLU() if method == "baseline" else PlainAdaLin(HIDDEN)) for _ in range(2))
        self.out = nn.Linear(HIDDEN, outputs)

    def features(self, x: Tensor) -> Tensor:
        return self.act2(self.fc2(self.act1(self.fc1(x))))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.features(x))


class PlainActor(PlainNetwork):
    def __init__(self, method: str) -> None:
        super().__init__(OBSERVATIONS, ACTIONS, method)
        self.log_std = nn.Linear(HIDDEN, ACTIONS)
        self.scale, self.bias = torch.ones(ACTIONS), torch.zeros(ACTIONS)

    def sample(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.features(x)
        mean, log_std = self.out(x), torch.tanh(self.log_std(x))
        std = (-5 + 0.5 * 7 * (log_std + 1)).exp()
        normal = torch.distributions.Normal(mean, std)
        drawn = normal.rsample()
        squashed = torch.tanh(drawn)
        log_prob = normal.log_prob(drawn) - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale + self.bias, log_prob.sum(1, keepdim=True)


class PlainSAC:
    """The update in the order in which CleanRL has it."""

    def __init__(self, method: str) -> None:
        self._actor = PlainActor(method)
        pairs = OBSERVATIONS + ACTIONS
        self._critics = [PlainNetwork(pairs, 1, method) for _ in range(2)]
        self._targets = [PlainNetwork(pairs, 1, method) for _ in range(2)]
        for critic, target in zip(self._critics, self._targets, strict=True):
            target.load_state_dict(critic.state_dict())
        both = [parameter for critic in self._critics for parameter in critic.parameters()]
        self._critic_adam = torch.optim.Adam(both, lr=1e-3)
        self._actor_adam = torch.optim.Adam(list(self._actor.parameters()), lr=3e-4)
        self._log_alpha = torch.zeros(1, requires_grad=True)
        self._alpha_adam, self._alpha = torch.optim.Adam([self._log_alpha], lr=1e-3), 1.0
        self._updates = 0

    def update(self, batch: Batch) -> None:
        self._updates += 1
        observations = batch.pairs[:, :OBSERVATIONS]
        with torch.no_grad():
            actions, log_prob = self._actor.sample(batch.next_observations)
            after = torch.cat((batch.next_observations, actions), 1)
            first, second = (target(after) for target in self._targets)
            value = torch.min(first, second) - self._alpha * log_prob
            wanted = batch.rewards + (1 - batch.terminated) * 0.99 * value
        first, second = (critic(batch.pairs) for critic in self._critics)
        loss = F.mse_loss(first, wanted) + F.mse_loss(second, wanted)
        self._critic_adam.zero_grad()
        loss.backward()
        self._critic_adam.step()
        if self._updates % 2 == 0:
            for _ in range(2):
                self._update_actor(observations)
        for critic, target in zip(self._critics, self._targets, strict=True):
            for own, followed in zip(critic.parameters(), target.parameters(), strict=True):
                followed.data.copy_(0.005 * own.data + 0.995 * followed.data)

    def _update_actor(self, observations: Tensor) -> None:
        actions, log_prob = self._actor.sample(observations)
        first, second = (critic(torch.cat((observations, actions), 1)) for critic in self._critics)
        loss = (self._alpha * log_prob - torch.min(first, second)).mean()
        self._actor_adam.zero_grad()
        loss.backward()
        self._actor_adam.step()
        with torch.no_grad():
            _, log_prob = self._actor.sample(observations)
        entropy_loss = (-self._log_alpha.exp() * (log_prob - ACTIONS)).mean()
        self._alpha_adam.zero_grad()
        entropy_loss.backward()
        self._alpha_adam.step()
        self._alpha = self._log_alpha.exp().item()


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


def _work(count: int) -> float:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
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
            alone.append(pool.apply(_work, (300,)))
            together.append(sum(pool.map(_work, (300, 300), chunksize=1)))
    return at_least(1.8, "SAC, two processes on two cores", max(together) / max(alone), "x one")
