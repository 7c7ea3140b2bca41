import math
from dataclasses import dataclass

import torch

from adalin.methods._rule import Need, Now, Rule, State
from adalin.structure import Network


@dataclass(frozen=True)
class UPGD(Rule):
    """Utility-based perturbed gradient descent (Elsayed & Mahmood 2024), global and of first order.

        u <- beta u + (1 - beta) (-g p),   s = sigmoid(u / (1 - beta^t) / max u)
        p <- (1 - lr decay) p - lr (g + noise) (1 - s),   noise from N(0, sigma^2)

    The maximum is over all parameters and without the correction, as the authors' code has it. The optimiser is SGD.
    Their README multiplies the learning rate by 2; this is the variant of their experiments, which does not.
    """

    name = "upgd"
    title = "UPGD"
    summary = "adds noise to parameters, and moves them less, the more use they are of"
    paper = "Elsayed & Mahmood 2024"
    of_plain_sgd = True

    beta: float = 0.999
    """Share of the utility that stays in each step."""
    sigma: float = 0.001
    """Standard deviation of the noise."""
    decay_rate: float = 0.0
    """Strength of the weight decay."""

    def __post_init__(self) -> None:
        self._check("beta", 0 <= self.beta < 1, "a number from 0 to below 1")
        self._check("sigma", 0 <= self.sigma < math.inf, "a number >= 0")
        self._check("decay_rate", 0 <= self.decay_rate < math.inf, "a number >= 0")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"gradients"})

    def init(self, net: Network) -> State:
        utilities = {f"utility.{part.name}": torch.zeros_like(part.value) for part in net.parts}
        return {"step": torch.zeros((), dtype=torch.float64), **utilities}

    def before_step(self, net: Network, now: Now) -> None:
        parts, params, grads = net.parts, net.params, net.grads
        utilities = [now.memory[f"utility.{part.name}"] for part in parts]
        for part, utility in zip(parts, utilities, strict=True):
            utility.lerp_(-part.grad * part.value, 1 - self.beta)
        named = net.named(utilities)
        largest = torch.stack([utility.max() for utility in named.values() if utility.numel()]).max()
        correction = 1 - self.beta ** now.memory["step"].add_(1).item()
        generator = now.generator(self)
        for name, value in params.items():
            drawn = torch.empty(value.shape, dtype=value.dtype).normal_(0, self.sigma, generator=generator)
            share = torch.sigmoid(named[name] / correction / largest)
            grads[name].add_(drawn.to(value.device)).mul_(1 - share)
            value.mul_(1 - now.lr * self.decay_rate)
