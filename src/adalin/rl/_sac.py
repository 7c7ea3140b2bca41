"""Soft Actor-Critic (Haarnoja et al. 2018) with CleanRL's defaults and order of updates.

Networks compute their own gradients. Those of the losses and of the policy's samples are written out; what autograd
would give is what the tests compare them with.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adalin._seeds import derive
from adalin.engine import FreshWeights, Net
from adalin.methods import ActingRules, Rule
from adalin.native import aligned_zeros, padded
from adalin.optim import Adam, named_memory, separate_steps
from adalin.structure import Part

LOG_STD_MIDDLE, LOG_STD_HALF_RANGE = torch.tensor(-1.5), 3.5
"""log std is between -5 and 2."""
EPSILON = 1e-6
"""Keeps the logarithm finite where an action is at its bound."""
ADAM = Adam()

Action = NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """Transitions, one per row."""

    pairs: Tensor
    """Observations and actions side by side, as in the buffer and for the critics: (batch, observations + actions)."""
    rewards: Tensor
    """Rewards, (batch, 1)."""
    terminated: Tensor
    """Terminations, (batch, 1): 1 where the next state has no value. An episode cut off at its time limit has one."""
    next_observations: Tensor


class Sample(NamedTuple):
    """Actions drawn from the policy, with what their gradients need."""

    actions: Tensor
    log_prob: Tensor
    """Logarithm of their density, (batch, 1)."""
    noise: Tensor
    std: Tensor
    squashed: Tensor
    """Tanh of what was drawn: actions before they are scaled."""
    stretched: Tensor
    """Factor scale (1 - squashed^2), the derivative of the actions for what was drawn."""
    squashed_log_std: Tensor
    """Tanh of the network's second half of outputs, which becomes log std."""


class SAC:
    """An actor, two critics, their targets, and the entropy coefficient.

    Args:
        actor: observations -> means and raw log standard deviations of the actions, side by side.
        critics: two networks, (observations, actions) -> value.
        targets: two more of the same form, which become copies of them.
        low, high: bounds of the actions.
        generator: where all noise comes from.
        rules: what acts on the actor and on each critic, in the steps of their own optimisers.
        seed: seed of what rules draw.
    """

    def __init__(
        self,
        actor: Net,
        critics: Sequence[Net],
        targets: Sequence[Net],
        low: Tensor,
        high: Tensor,
        generator: torch.Generator,
        *,
        gamma: float = 0.99,
        tau: float = 0.005,
        policy_lr: float = 3e-4,
        q_lr: float = 1e-3,
        policy_frequency: int = 2,
        rules: Sequence[Rule] = (),
        seed: int = 0,
    ) -> None:
        self.actor, self.critics, self.targets = actor, critics, targets
        self._scale, self._bias = (high - low) / 2, (high + low) / 2
        self._generator = generator
        self._gamma, self._tau, self._policy_frequency = gamma, tau, policy_frequency
        self._target_entropy = -float(len(low))
        value, grad = (aligned_zeros(padded(1), low.dtype) for _ in range(2))
        self.log_coefficient = value[:1]
        self._coefficient = Part("log_coefficient", value, grad, is_weight=True)
        for critic, target in zip(critics, targets, strict=True):
            critic.mirrors = [target]  # whose units become new with the critic's
        self._adam_actor = LearnedNet(actor, policy_lr, rules, derive(seed, "actor"))
        self._adam_critics = [
            LearnedNet(critic, q_lr, rules, derive(seed, "critics", number)) for number, critic in enumerate(critics)
        ]
        self._adam_coefficient = Learned([self._coefficient], q_lr)
        self.updates = 0
        self.values = self.errors = torch.full((2, 1, 1), math.nan)
        """Of the last update: what the critics said, and how far it was from what they should have said."""
        self.actor_loss: Tensor | None = None
        """Of the actor's last update, until somebody who has seen it takes it away."""
        self._targets_follow(1.0)

    def act(self, observation: NDArray[np.floating], *, deterministic: bool = False) -> Action:
        """One action for one observation."""
        outputs = self.actor.predict(torch.as_tensor(observation, dtype=self._scale.dtype)[None])
        if deterministic:
            mean, _ = outputs.chunk(2, 1)
            actions = mean.tanh() * self._scale + self._bias
        else:
            actions = self._sample(outputs).actions
        return actions[0].float().numpy()

    def update(self, batch: Batch) -> None:
        """One step of the critics; every `policy_frequency` updates as many of the actor and the coefficient."""
        self.updates += 1
        self._update_critics(batch)
        if self.updates % self._policy_frequency == 0:
            self._update_actor(batch)
        self._targets_follow(self._tau)

    def _update_critics(self, batch: Batch) -> None:
        """Minimise the mean over the batch of (Q - y)^2, y = r + gamma (1 - terminated) (min Q' - alpha log pi)."""
        after = self._sample(self.actor.predict(batch.next_observations))
        pairs = torch.cat((batch.next_observations, after.actions), 1)
        value = torch.minimum(*(target.predict(pairs) for target in self.targets))
        value = value.sub_(after.log_prob, alpha=self.coefficient)
        wanted = torch.addcmul(batch.rewards, 1 - batch.terminated, value, value=self._gamma)
        self.values = torch.stack([critic.forward(batch.pairs) for critic in self.critics])
        self.errors = self.values - wanted
        gradients = self.errors * (2 / len(wanted))
        for critic, adam, gradient in zip(self.critics, self._adam_critics, gradients, strict=True):
            critic.backward(gradient)
            adam.step()

    def _update_actor(self, batch: Batch) -> None:
        """Minimise the mean of alpha log pi(a|s) - min Q(s, a), then bring the entropy nearer to its target."""
        size, actions = len(batch.pairs), len(self._scale)
        observations = batch.pairs[:, :-actions]
        outputs = self.actor.forward(observations)
        for _ in range(self._policy_frequency):
            sample = self._sample(outputs)
            pairs = torch.cat((observations, sample.actions), 1)
            values = torch.stack([critic.forward(pairs) for critic in self.critics])
            least = values.amin(0)
            self.actor_loss = (self.coefficient * sample.log_prob - least).mean()
            is_least = values == least
            for_values = is_least / (is_least.sum(0) * -size)  # of -mean(min Q); equals share it
            for_pairs = [net.input_gradient(grad) for net, grad in zip(self.critics, for_values, strict=True)]
            for_actions = torch.add(*for_pairs)[:, -actions:]
            self.actor.backward(self._sample_gradient(sample, for_actions))
            self._adam_actor.step()
            # The same outputs serve the coefficient here and the actor in the next round: its weights are the same.
            outputs = self.actor.forward(observations)
            surplus = self._sample(outputs).log_prob.mean() + self._target_entropy
            self._coefficient.grad[0] = -self.log_coefficient.exp() * surplus
            self._adam_coefficient.step()

    def _targets_follow(self, share: float) -> None:
        """Bring the targets nearer to their critics."""
        for target, critic in zip(self.targets, self.critics, strict=True):
            values, wanted = ([part.value for part in net.parts] for net in (target, critic))
            torch._foreach_lerp_(values, wanted, share)

    @property
    def coefficient(self) -> float:
        """Alpha of the papers on SAC, which has nothing to do with AdaLin's."""
        return self.log_coefficient.exp().item()

    def _sample(self, outputs: Tensor) -> Sample:
        """a = scale tanh(mean + std noise) + bias and its log probability."""
        mean, raw = (half.contiguous() for half in outputs.chunk(2, 1))  # elementwise operations want them dense
        squashed_log_std = raw.tanh()
        log_std = torch.add(LOG_STD_MIDDLE, squashed_log_std, alpha=LOG_STD_HALF_RANGE)
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
        """Copies of all that changes while it learns, by names that no engine changes."""
        return {name: value.clone(memory_format=torch.contiguous_format) for name, value in self._numbers()}

    def restore(self, state: Mapping[str, Tensor], updates: int) -> None:
        """Go on from what `state` gave after so many updates."""
        for name, value in self._numbers():
            value.copy_(state[name])
        self.updates = updates

    def _numbers(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors themselves, with their names."""
        yield from _named("actor", self.actor, self._adam_actor)
        for number, (critic, adam) in enumerate(zip(self.critics, self._adam_critics, strict=True)):
            yield from _named(f"critics.{number}", critic, adam)
        for number, target in enumerate(self.targets):
            yield from _named(f"targets.{number}", target)
        yield "log_coefficient", self.log_coefficient
        memory = self._adam_coefficient.memory
        yield "adam.log_coefficient.step", memory["step"]
        for moment in ("exp_avg", "exp_avg_sq"):
            yield f"adam.log_coefficient.{moment}", memory[f"{moment}.log_coefficient"][:1]


class Learned:
    """What Adam moves, and its memory of that."""

    def __init__(self, parts: Sequence[Part], lr: float, *, separate: bool = False) -> None:
        memory = ADAM.init(parts)
        self.memory = separate_steps(parts, memory) if separate else memory
        self.step = ADAM.prepare(self.memory, parts, lr)


class LearnedNet:
    """A network that Adam moves, with the rules that act in its steps."""

    def __init__(self, net: Net, lr: float, rules: Sequence[Rule], seed: int) -> None:
        self._net, self._lr = net, lr
        self._adam = Learned(net.parts, lr, separate=any("steps" in rule.needs for rule in rules))
        self.memory = self._adam.memory
        net.memory = named_memory(net, self.memory)
        self.rules = ActingRules(rules, net, seed, FreshWeights(net, seed).draw if rules else None)
        if "outputs" in self.rules.needs:
            net.watch()
        self.steps = torch.zeros((), dtype=torch.int64)
        """Steps made so far."""

    def step(self) -> None:
        """One step, with gradients in place."""
        steps = int(self.steps)
        acting = self.rules.acting(steps)
        self.rules.call("before_step", 0, steps, steps, self._lr, acting)
        self._adam.step()
        self.steps += 1
        self.rules.call("after_step", 0, steps, steps + 1, self._lr, acting)


def _named(name: str, net: Net, adam: LearnedNet | None = None) -> Iterator[tuple[str, Tensor]]:
    """A network's parameters, and what Adam and rules remember of them."""
    for own, value in net.params.items():
        yield f"{name}.{own}", value
    if adam is not None:
        for own, value in named_memory(net, adam.memory).items():
            yield f"adam.{name}.{own}", value
        if adam.rules.rules:
            yield f"rules.{name}.steps", adam.steps
        for own, value in adam.rules.named().items():
            yield f"rules.{name}.{own}", value
