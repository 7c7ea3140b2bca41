"""An update of SAC is what CleanRL's order of losses gives in plain autograd, with the same noise."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal

from adalin import native
from adalin.engine import ModuleNet, NativeNet, Net
from adalin.nn import AdaLin, make_activation
from adalin.rl._sac import SAC, Batch

OBSERVATIONS, ACTIONS, BATCH, HIDDEN = 4, 2, 16, 12
LOW, HIGH = (-1.0, -1.0), (1.0, 1.0)
LOPSIDED_LOW, LOPSIDED_HIGH = (-0.5, -3.0), (2.0, 7.0)
EXACT = {"rtol": 1e-8, "atol": 1e-10}


def network(activation: str, inputs: int, outputs: int) -> nn.Sequential:
    width = HIDDEN * (2 if activation in ("crelu", "fourier") else 1)
    first, second = (make_activation(activation, HIDDEN) for _ in range(2))
    layers = nn.Linear(inputs, HIDDEN), first, nn.Linear(width, HIDDEN), second, nn.Linear(width, outputs)
    return nn.Sequential(*layers)


def networks(activation: str = "adalin", seed: int = 1) -> tuple[nn.Sequential, list[nn.Sequential]]:
    torch.manual_seed(seed)
    critics = [network(activation, OBSERVATIONS + ACTIONS, 1) for _ in range(2)]
    return network(activation, OBSERVATIONS, 2 * ACTIONS), critics


def batch(seed: int, terminated: float | None = None) -> Batch:
    torch.manual_seed(seed)
    ends = torch.randint(2, (BATCH, 1)).to(torch.get_default_dtype())
    if terminated is not None:
        ends.fill_(terminated)
    pairs, after = torch.randn(BATCH, OBSERVATIONS + ACTIONS), torch.randn(BATCH, OBSERVATIONS)
    return Batch(pairs, torch.randn(BATCH, 1), ends, after)


class Reference:
    """CleanRL's sac_continuous_action.py, but for where its noise comes from."""

    def __init__(
        self,
        actor: nn.Sequential,
        critics: list[nn.Sequential],
        low: tuple[float, ...],
        high: tuple[float, ...],
        generator: torch.Generator,
        *,
        gamma: float = 0.99,
        tau: float = 0.005,
        policy_lr: float = 3e-4,
        q_lr: float = 1e-3,
        policy_frequency: int = 2,
    ) -> None:
        self.actor, self.critics, self.targets = actor, critics, copy.deepcopy(critics)
        self.scale = (torch.tensor(high) - torch.tensor(low)) / 2
        self.bias = (torch.tensor(high) + torch.tensor(low)) / 2
        self.generator, self.gamma, self.tau, self.policy_frequency = generator, gamma, tau, policy_frequency
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.q_optimizer = torch.optim.Adam([p for one in critics for p in one.parameters()], lr=q_lr)
        self.actor_optimizer = torch.optim.Adam(actor.parameters(), lr=policy_lr)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=q_lr)
        self.step = 0
        self.actor_loss = torch.tensor(math.nan)

    def get_action(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.actor(observations).chunk(2, dim=-1)
        std = (-5 + 0.5 * (2 - -5) * (torch.tanh(raw) + 1)).exp()
        drawn = mean + std * torch.randn(mean.shape, generator=self.generator)
        squashed = torch.tanh(drawn)
        log_prob = Normal(mean, std).log_prob(drawn)
        log_prob = log_prob - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale + self.bias, log_prob.sum(1, keepdim=True)

    def update(self, data: Batch) -> None:
        self.step += 1
        observations = data.pairs[:, :OBSERVATIONS]
        alpha = self.log_alpha.exp().item()
        with torch.no_grad():
            actions, log_prob = self.get_action(data.next_observations)
            both = [target(torch.cat((data.next_observations, actions), 1)) for target in self.targets]
            least = torch.min(*both) - alpha * log_prob
            self.wanted = data.rewards + (1 - data.terminated) * self.gamma * least
        self.values = torch.stack([critic(data.pairs) for critic in self.critics])
        self.critic_loss = F.mse_loss(self.values[0], self.wanted) + F.mse_loss(self.values[1], self.wanted)
        self.q_optimizer.zero_grad()
        self.critic_loss.backward()
        self.q_optimizer.step()

        if self.step % self.policy_frequency == 0:
            for _ in range(self.policy_frequency):
                actions, log_prob = self.get_action(observations)
                least = torch.min(*(critic(torch.cat((observations, actions), 1)) for critic in self.critics))
                self.actor_loss = (alpha * log_prob - least).mean()
                self.actor_optimizer.zero_grad()
                self.actor_loss.backward()
                self.actor_optimizer.step()
                with torch.no_grad():
                    _, log_prob = self.get_action(observations)
                alpha_loss = (-self.log_alpha.exp() * (log_prob - ACTIONS)).mean()
                self.alpha_optimizer.zero_grad()
                alpha_loss.backward()
                self.alpha_optimizer.step()
                alpha = self.log_alpha.exp().item()

        with torch.no_grad():
            for critic, target in zip(self.critics, self.targets, strict=True):
                for own, slow in zip(critic.parameters(), target.parameters(), strict=True):
                    slow.copy_(self.tau * own + (1 - self.tau) * slow)


def make_pair(
    activation: str = "adalin", low: tuple[float, ...] = LOW, high: tuple[float, ...] = HIGH, **settings: Any
) -> tuple[SAC, Reference]:
    actor, critics = networks(activation)
    noise = [torch.Generator().manual_seed(3) for _ in range(2)]
    reference = Reference(copy.deepcopy(actor), copy.deepcopy(critics), low, high, noise[0], **settings)
    return make_sac(actor, critics, networks(activation, seed=99)[1], low, high, noise[1], **settings), reference


def make_sac(
    actor: nn.Module,
    critics: list[nn.Sequential],
    targets: list[nn.Sequential],
    low: tuple[float, ...],
    high: tuple[float, ...],
    generator: torch.Generator,
    **settings: Any,
) -> SAC:
    def nets(modules: list[nn.Sequential]) -> list[Net]:
        return [ModuleNet(module) for module in modules]

    bounds = torch.tensor(low), torch.tensor(high)
    return SAC(ModuleNet(actor), nets(critics), nets(targets), *bounds, generator, **settings)


def assert_same(sac: SAC, reference: Reference, **tolerance: float) -> None:
    nets = [sac.actor, *sac.critics, *sac.targets]
    for net, plain in zip(nets, [reference.actor, *reference.critics, *reference.targets], strict=True):
        torch.testing.assert_close(net.model.state_dict(), plain.state_dict(), **tolerance)
    torch.testing.assert_close(sac.log_coefficient, reference.log_alpha.detach(), **tolerance)
    torch.testing.assert_close(sac.values, reference.values.detach(), **tolerance)
    torch.testing.assert_close(sac.errors, reference.values.detach() - reference.wanted, **tolerance)
    loss = sac.errors.square().mean(1).sum()
    torch.testing.assert_close(loss, reference.critic_loss.detach(), **tolerance)
    if sac.actor_loss is None:
        assert reference.actor_loss.isnan()
    else:
        torch.testing.assert_close(sac.actor_loss, reference.actor_loss.detach(), **tolerance)


def assert_updates_equal(count: int, data: Callable[[int], Batch] = batch, **settings: Any) -> None:
    sac, reference = make_pair(**settings)
    for number in range(count):
        sac.update(data(number))
        reference.update(data(number))
        assert_same(sac, reference, **EXACT)
    assert sac.updates == reference.step == count


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("policy_frequency", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_updates_equal_cleanrls(count: int, policy_frequency: int) -> None:
    assert_updates_equal(count, policy_frequency=policy_frequency)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("activation", ["relu", "adalin-tanh", "crelu", "fourier", "interpolation", "leaky_relu"])
def test_updates_equal_cleanrls_with_any_activation(activation: str) -> None:
    assert_updates_equal(4, activation=activation)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("policy_frequency", [1, 2])
def test_updates_equal_cleanrls_where_actions_are_not_between_minus_1_and_1(policy_frequency: int) -> None:
    bounds = {"low": LOPSIDED_LOW, "high": LOPSIDED_HIGH}
    assert_updates_equal(4, policy_frequency=policy_frequency, **bounds)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("terminated", [0.0, 1.0])
def test_updates_equal_cleanrls_whether_episodes_end_or_not(terminated: float) -> None:
    assert_updates_equal(2, lambda seed: batch(seed, terminated))


@pytest.mark.usefixtures("_double")
def test_updates_equal_cleanrls_with_other_settings() -> None:
    assert_updates_equal(4, gamma=0.5, tau=0.3, policy_lr=2e-3, q_lr=5e-3)


@pytest.mark.parametrize("activation", ["relu", "adalin"])
def test_updates_equal_cleanrls_in_single_precision(activation: str) -> None:
    sac, reference = make_pair(activation)
    start = [parameter.detach().clone() for parameter in reference.actor.parameters()]
    for number in range(4):
        sac.update(batch(number))
        reference.update(batch(number))
        assert_same(sac, reference, rtol=1e-4, atol=2e-5)
    moved = [(own - old).abs().max() for own, old in zip(reference.actor.parameters(), start, strict=True)]
    assert min(moved) > 5e-4


@pytest.mark.usefixtures("_double")
def test_where_episodes_end_the_target_is_the_reward() -> None:
    sac, _ = make_pair()
    data = batch(0, terminated=1.0)
    sac.update(data)
    torch.testing.assert_close(sac.values - sac.errors, data.rewards.expand(2, -1, -1))
    data = batch(0, terminated=0.0)
    sac.update(data)
    assert ((sac.values - sac.errors)[0] - data.rewards).abs().min() > 1e-3


@pytest.mark.usefixtures("_double")
def test_equal_critics_share_the_actors_gradient() -> None:
    """As autograd has it: not the sum of both, which would be twice as steep."""
    sac, reference = make_pair(q_lr=0.0, policy_frequency=1)
    critics = [critic.model for critic in sac.critics]
    for first, second in (critics, reference.critics):
        second.load_state_dict(first.state_dict())
    for target, critic in zip(sac.targets, critics, strict=True):
        target.model.load_state_dict(critic.state_dict())
    reference.targets = copy.deepcopy(reference.critics)
    sac.update(batch(0))
    reference.update(batch(0))
    assert_same(sac, reference, **EXACT)
    for name, own in reference.actor.named_parameters():
        expected = reference.actor_optimizer.state[own]["exp_avg"]
        assert expected.any()
        torch.testing.assert_close(sac.state()[f"adam.actor.exp_avg.{name}"], expected, **EXACT)


def test_targets_start_as_their_critics_and_follow_their_alphas() -> None:
    sac, _ = make_pair(tau=0.5)

    def alphas(nets: Sequence[Net]) -> list[Tensor]:
        layers = [layer for net in nets for layer in net.model.modules()]
        return [layer.alpha.detach().clone() for layer in layers if isinstance(layer, AdaLin)]

    first = alphas(sac.critics)
    assert len(first) == 4
    assert all(map(torch.equal, alphas(sac.targets), first))
    sac.update(batch(0))
    for target, old, new in zip(alphas(sac.targets), first, alphas(sac.critics), strict=True):
        assert not torch.equal(old, new)
        torch.testing.assert_close(target, (old + new) / 2)


@pytest.mark.parametrize("policy_frequency", [1, 2, 3])
def test_the_actor_rests_and_then_makes_up_for_it(policy_frequency: int) -> None:
    sac, _ = make_pair(policy_frequency=policy_frequency)
    for number in range(1, 7):
        before = sac.state()
        sac.update(batch(number))
        after = sac.state()
        rests = number % policy_frequency != 0
        for name in ("actor.0.weight", "log_coefficient"):
            assert torch.equal(after[name], before[name]) is rests
        assert not torch.equal(after["critics.0.0.weight"], before["critics.0.0.weight"])
        made = number // policy_frequency * policy_frequency
        steps = {name: value.item() for name, value in after.items() if name.endswith(".step")}
        critics = {"adam.critics.0.step": number, "adam.critics.1.step": number}
        assert steps == critics | {"adam.actor.step": made, "adam.log_coefficient.step": made}


# what is drawn


@pytest.mark.usefixtures("_double")
def test_the_gradient_of_a_sample_is_that_of_finite_differences() -> None:
    sac, _ = make_pair(low=LOPSIDED_LOW, high=LOPSIDED_HIGH)
    sac.log_coefficient.fill_(-0.7)
    torch.manual_seed(5)
    outputs, weights = torch.randn(6, 2 * ACTIONS), torch.randn(6, ACTIONS)

    def loss(at: Tensor) -> float:
        sac._generator.manual_seed(4)
        sample = sac._sample(at)
        return (sac.coefficient * sample.log_prob.mean() + (weights * sample.actions).sum()).item()

    sac._generator.manual_seed(4)
    found = sac._sample_gradient(sac._sample(outputs), weights)
    step = 1e-5
    for place in range(outputs.numel()):
        change = torch.zeros_like(outputs)
        change.view(-1)[place] = step
        slope = (loss(outputs + change) - loss(outputs - change)) / (2 * step)
        assert found.view(-1)[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.usefixtures("_double")
def test_the_gradient_of_a_sample_is_autograds_also_where_actions_are_at_their_bounds() -> None:
    sac, reference = make_pair()
    torch.manual_seed(5)
    outputs, weights = 8 * torch.randn(32, 2 * ACTIONS), torch.randn(32, ACTIONS)
    sac._generator.manual_seed(4)
    reference.generator.manual_seed(4)
    sample = sac._sample(outputs)
    assert (sample.squashed.abs() == 1).any()
    plain = outputs.clone().requires_grad_()
    reference.actor = nn.Sequential(nn.Identity())
    actions, log_prob = reference.get_action(plain)
    torch.testing.assert_close(sample.actions, actions.detach(), **EXACT)
    torch.testing.assert_close(sample.log_prob, log_prob.detach(), **EXACT)
    (log_prob.mean() + (weights * actions).sum()).backward()
    torch.testing.assert_close(sac._sample_gradient(sample, weights), plain.grad, **EXACT)


def test_actions_are_within_their_bounds_and_random_unless_deterministic() -> None:
    sac, reference = make_pair(low=LOPSIDED_LOW, high=LOPSIDED_HIGH)
    low, high = torch.tensor(LOPSIDED_LOW), torch.tensor(LOPSIDED_HIGH)
    observations = 10 * torch.randn(50, OBSERVATIONS)
    for observation in observations:
        drawn = [torch.from_numpy(sac.act(observation.numpy())) for _ in range(2)]
        assert not torch.equal(*drawn)
        assert all(((low <= action) & (action <= high)).all() for action in drawn)
        with torch.no_grad():
            mean, _ = reference.actor(observation[None]).chunk(2, 1)
        expected = mean[0].tanh() * (high - low) / 2 + (high + low) / 2
        found = torch.from_numpy(sac.act(observation.double().numpy(), deterministic=True))
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_deterministic_policy_draws_nothing() -> None:
    sac, _ = make_pair()
    before = sac._generator.get_state()
    sac.act(torch.randn(OBSERVATIONS).numpy(), deterministic=True)
    assert torch.equal(sac._generator.get_state(), before)
    sac.act(torch.randn(OBSERVATIONS).numpy())
    assert not torch.equal(sac._generator.get_state(), before)


# saved and restored


def resumed(state: dict[str, Tensor], noise: Tensor, updates: int, policy_frequency: int) -> SAC:
    actor, critics = networks(seed=50)
    generator = torch.Generator()
    generator.set_state(noise)
    targets = networks(seed=51)[1]
    sac = make_sac(actor, critics, targets, LOW, HIGH, generator, policy_frequency=policy_frequency)
    sac.restore(state, updates)
    return sac


def went_on(sac: SAC) -> dict[str, Tensor]:
    for number in range(10, 14):
        sac.update(batch(number))
    return sac.state()


@pytest.mark.parametrize("policy_frequency", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_restored_agent_goes_on_to_the_bit(count: int, policy_frequency: int) -> None:
    sac, _ = make_pair(policy_frequency=policy_frequency)
    for number in range(count):
        sac.update(batch(number))
    state = sac.state()
    other = resumed(state, sac._generator.get_state(), count, policy_frequency)
    expected, found = went_on(sac), went_on(other)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert torch.equal(other.errors, sac.errors)
    observation = torch.randn(OBSERVATIONS).numpy()
    assert (other.act(observation) == sac.act(observation)).all()


def test_a_restored_agent_needs_all_of_its_state() -> None:
    sac, _ = make_pair()
    for number in range(3):
        sac.update(batch(number))
    state = sac.state()
    noise = sac._generator.get_state()
    expected = went_on(sac)

    def is_noticed(altered: dict[str, Tensor], updates: int = 3, noise: Tensor = noise) -> bool:
        found = went_on(resumed(altered, noise, updates, policy_frequency=2))
        return not all(torch.equal(found[name], expected[name]) for name in expected)

    assert not is_noticed(state)
    for name, value in state.items():
        assert is_noticed({**state, name: torch.zeros_like(value)}), name
    assert is_noticed(state, updates=2)
    assert is_noticed(state, noise=torch.Generator().manual_seed(77).get_state())


@pytest.mark.skipif(native.isa() != "v4", reason="needs AVX-512")
@pytest.mark.parametrize("activation", ["relu", "adalin", "adalin-tanh", "crelu"])
def test_updates_give_the_same_bits_on_avx2_and_avx512(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = []
    for isa in ("v3", "v4"):
        kernels = native.load(isa)
        monkeypatch.setattr(native, "library", lambda kernels=kernels: kernels)  # what optimisers ask for
        actor, critics = networks(activation)
        targets = networks(activation, seed=99)[1]
        nets = [[NativeNet(own, kernels) for own in group] for group in ([actor], critics, targets)]
        sac = SAC(nets[0][0], *nets[1:], torch.tensor(LOW), torch.tensor(HIGH), torch.Generator().manual_seed(3))
        for number in range(12):
            sac.update(batch(number))
        bits.append({name: value.numpy().tobytes() for name, value in sac.state().items()})
    assert bits[0] == bits[1]
