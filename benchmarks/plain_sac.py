"""SAC's update as CleanRL writes it: separate critics, torch.distributions, torch.optim.Adam, eager autograd."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.rl._sac import Batch
from benchmarks.plain import PlainAdaLin

HIDDEN = 256


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
    def __init__(self, observations: int, actions: int, method: str) -> None:
        super().__init__(observations, actions, method)
        self.log_std = nn.Linear(HIDDEN, actions)
        self.scale, self.bias = torch.ones(actions), torch.zeros(actions)

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

    def __init__(self, observations: int, actions: int, method: str) -> None:
        self._observations, self._actions = observations, actions
        self._actor = PlainActor(observations, actions, method)
        self._critics = [PlainNetwork(observations + actions, 1, method) for _ in range(2)]
        self._targets = [PlainNetwork(observations + actions, 1, method) for _ in range(2)]
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
        observations = batch.pairs[:, : self._observations]
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
        entropy_loss = (-self._log_alpha.exp() * (log_prob - self._actions)).mean()
        self._alpha_adam.zero_grad()
        entropy_loss.backward()
        self._alpha_adam.step()
        self._alpha = self._log_alpha.exp().item()
