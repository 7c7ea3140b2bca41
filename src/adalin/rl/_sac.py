"""Soft Actor-Critic (Haarnoja et al. 2018) with CleanRL's defaults and order of updates.

Gradients are written out, see `_networks`; what autograd would give is what the tests compare them with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adam import adam

from adalin.rl._networks import MLPs

LOG_STD_MIDDLE, LOG_STD_HALF_RANGE = -1.5, 3.5
"""log std is between -5 and 2."""
EPSILON = 1e-6
"""Keeps the logarithm finite where an action is at its bound."""

Action = NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """Transitions, one per row."""

    pairs: Tensor
    """(batch, observations + actions), as they lie side by side in the buffer and as the critics take them."""
    rewards: Tensor
    """(batch, 1)."""
    terminated: Tensor
    """(batch, 1): 1 where the next state has no value. An episode that was cut off at its time limit has."""
    next_observations: Tensor


@dataclass(frozen=True)
class Sample:
    """Actions drawn from the policy, with what their gradients need."""

    actions: Tensor
    log_prob: Tensor
    """(batch, 1)."""
    noise: Tensor
    std: Tensor
    squashed: Tensor
    """tanh of what was drawn: actions before they are scaled."""
    stretched: Tensor
    """scale (1 - squashed^2), the derivative of the actions for what was drawn."""
    squashed_log_std: Tensor
    """tanh of the network's second half of outputs, which becomes log std."""


class SAC:
    """An actor, two critics, their targets, and the entropy coefficient.

    Args:
        actor: observations -> means and raw log standard deviations of the actions, side by side.
        critics: two networks, (observations, actions) -> value.
        low, high: bounds of the actions.
        generator: where all noise comes from.
    """

    def __init__(
        self,
        actor: nn.Sequential,
        critics: Sequence[nn.Sequential],
        targets: Sequence[nn.Sequential],
        low: Tensor,
        high: Tensor,
        generator: torch.Generator,
        *,
        gamma: float = 0.99,
        tau: float = 0.005,
        policy_lr: float = 3e-4,
        q_lr: float = 1e-3,
        policy_frequency: int = 2,
    ) -> None:
        self.actor, self.critics, self.targets = MLPs([actor]), MLPs(critics), MLPs(targets)
        self.targets.parameters.copy_(self.critics.parameters)
        self._scale, self._bias = (high - low) / 2, (high + low) / 2
        self._generator = generator
        self._gamma, self._tau, self._policy_frequency = gamma, tau, policy_frequency
        self._target_entropy = -float(len(low))
        self.log_coefficient = torch.zeros(1)
        self.updates = 0
        self.values = self.errors = torch.full((2, 1, 1), math.nan)
        """Of the last update: what the critics said, and how far it was from what they should have said."""
        self.actor_loss: Tensor | None = None
        """Of the actor's last update, until somebody who has seen it takes it away."""
        self._adam_critics = Adam(self.critics.parameters, q_lr)
        self._adam_actor = Adam(self.actor.parameters, policy_lr)
        self._adam_coefficient = Adam(self.log_coefficient, q_lr)

    @torch.no_grad()
    def act(self, observation: NDArray[np.floating], *, deterministic: bool = False) -> Action:
        """One action for one observation."""
        outputs = self.actor.forward(torch.as_tensor(observation, dtype=torch.float32)[None, None])[0]
        if deterministic:
            mean, _ = outputs.chunk(2, 1)
            return (mean.tanh() * self._scale + self._bias)[0].numpy()
        return self._sample(outputs).actions[0].numpy()

    @torch.no_grad()
    def update(self, batch: Batch) -> None:
        """One step of the critics; every `policy_frequency` updates as many of the actor and the coefficient."""
        self.updates += 1
        self._update_critics(batch)
        if self.updates % self._policy_frequency == 0:
            self._update_actor(batch)
        self.targets.parameters.lerp_(self.critics.parameters, self._tau)

    def _update_critics(self, batch: Batch) -> None:
        """Minimise the mean over the batch of (Q - y)^2, y = r + gamma (1 - terminated) (min Q' - alpha log pi)."""
        after = self._sample(self.actor.forward(batch.next_observations[None])[0])
        pairs = torch.cat((batch.next_observations, after.actions), 1)
        value = self.targets.forward(pairs[None]).amin(0).sub_(after.log_prob, alpha=self.coefficient)
        wanted = torch.addcmul(batch.rewards, 1 - batch.terminated, value, value=self._gamma)
        self.values = self.critics.forward(batch.pairs[None]).clone()
        self.errors = self.values - wanted
        self.critics.backward(self.errors * (2 / len(wanted)))
        self._adam_critics.step(self.critics.gradient)

    def _update_actor(self, batch: Batch) -> None:
        """Minimise the mean of alpha log pi(a|s) - min Q(s, a), then bring the entropy nearer to its target."""
        size, actions = len(batch.pairs), len(self._scale)
        observations = batch.pairs[:, :-actions]
        outputs = self.actor.forward(observations[None])[0]
        for _ in range(self._policy_frequency):
            sample = self._sample(outputs)
            values = self.critics.forward(torch.cat((observations, sample.actions), 1)[None])
            least = values.amin(0)
            self.actor_loss = (self.coefficient * sample.log_prob - least).mean()
            for_values = (values == least) / (-size * (values == least).sum(0))  # of -mean(min Q); equals share it
            for_actions = self.critics.input_gradient(for_values, last=actions).sum(0)
            self.actor.backward(self._sample_gradient(sample, for_actions)[None])
            self._adam_actor.step(self.actor.gradient)
            # The same outputs serve the coefficient here and the actor in the next round: its weights are the same.
            outputs = self.actor.forward(observations[None])[0]
            surplus = self._sample(outputs).log_prob.mean() + self._target_entropy
            self._adam_coefficient.step(-self.log_coefficient.exp() * surplus)

    @property
    def coefficient(self) -> float:
        """Alpha of the papers on SAC, which has nothing to do with AdaLin's."""
        return self.log_coefficient.exp().item()

    def _sample(self, outputs: Tensor) -> Sample:
        """a = scale tanh(mean + std noise) + bias and its log probability."""
        mean, raw = outputs.chunk(2, 1)
        squashed_log_std = raw.tanh()
        log_std = squashed_log_std * LOG_STD_HALF_RANGE + LOG_STD_MIDDLE
        std = log_std.exp()
        noise = torch.randn(mean.shape, generator=self._generator)
        squashed = torch.addcmul(mean, std, noise).tanh_()
        stretched = torch.addcmul(self._scale, self._scale, squashed.square(), value=-1)
        minus_log = torch.log(stretched + EPSILON).add_(log_std).addcmul_(noise, noise, value=0.5)
        log_prob = -minus_log.sum(1, keepdim=True) - 0.5 * math.log(2 * math.pi) * len(self._scale)
        actions = torch.addcmul(self._bias, squashed, self._scale)
        return Sample(actions, log_prob, noise, std, squashed, stretched, squashed_log_std)

    def _sample_gradient(self, sample: Sample, for_actions: Tensor) -> Tensor:
        """Of the actor's loss for its outputs, given that of -mean(min Q) for the actions.

        With u = mean + std noise and y = tanh(u): da/du = scale (1 - y^2), here `stretched`. log pi depends on u
        through -log(stretched + epsilon), with derivative 2 y stretched / (stretched + epsilon), and on log std itself,
        with derivative -1.
        """
        weight = self.coefficient / len(for_actions)
        for_squashed = for_actions + 2 * weight * sample.squashed / (sample.stretched + EPSILON)
        for_drawn = for_squashed * sample.stretched
        for_log_std = for_drawn * sample.std * sample.noise - weight
        for_raw = for_log_std * LOG_STD_HALF_RANGE * (1 - sample.squashed_log_std.square())
        return torch.cat((for_drawn, for_raw), 1)

    def state(self) -> dict[str, Tensor]:
        """All that changes while it learns; the tensors are its own, not copies."""
        adams = {"critics": self._adam_critics, "actor": self._adam_actor, "coefficient": self._adam_coefficient}
        tensors = {f"adam.{name}.{part}": value for name, one in adams.items() for part, value in one.state().items()}
        return tensors | {
            "actor": self.actor.parameters,
            "critics": self.critics.parameters,
            "targets": self.targets.parameters,
            "log_coefficient": self.log_coefficient,
        }

    def restore(self, state: dict[str, Tensor], updates: int) -> None:
        """Go on from what `state` gave after so many updates."""
        for name, value in self.state().items():
            value.copy_(state[name])
        self.updates = updates


class Adam:
    """torch's fused Adam on one vector."""

    def __init__(self, parameters: Tensor, lr: float) -> None:
        self._parameters, self._lr = parameters, lr
        self._mean, self._square = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self._steps = torch.zeros(())

    def step(self, gradient: Tensor) -> None:
        adam(
            [self._parameters],
            [gradient],
            [self._mean],
            [self._square],
            [],
            [self._steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._lr,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        return {"mean": self._mean, "square": self._square, "steps": self._steps}
