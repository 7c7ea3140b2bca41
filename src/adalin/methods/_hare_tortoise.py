from dataclasses import dataclass

import torch

from adalin.methods._rule import Now, Rule, State
from adalin.structure import Network


@dataclass(frozen=True)
class HareTortoise(Rule):
    """Hare & Tortoise (Lee et al. 2024): a slow copy follows the network, which goes back to it now and then.

    After every step: slow <- decay_rate slow + (1 - decay_rate) p, for parameters and buffers of floats; every `every`
    steps p <- slow. The optimiser keeps its memory. The network that is measured is the fast one.
    """

    name = "hare-tortoise"
    title = "Hare & Tortoise"
    summary = "sets the network back to a slow average of itself, every so many steps"
    paper = "Lee et al. 2024"

    every: int = 1000
    """Number of steps from one return to the next."""
    decay_rate: float = 0.999
    """Share of the slow copy that stays in each step."""

    def __post_init__(self) -> None:
        self._check("every", self.every >= 1, "a whole number >= 1")
        self._check("decay_rate", 0 <= self.decay_rate <= 1, "a number from 0 to 1")

    def init(self, net: Network) -> State:
        slow = {f"slow.{part.name}": part.value.clone() for part in net.parts}
        return slow | {f"buffer.{name}.slow": value.clone() for name, value in _buffers(net).items()}

    def after_step(self, net: Network, now: Now) -> None:
        parts, buffers = net.parts, _buffers(net)
        fast = [part.value for part in parts] + list(buffers.values())
        slow = [now.memory[f"slow.{part.name}"] for part in parts]
        slow += [now.memory[f"buffer.{name}.slow"] for name in buffers]
        torch._foreach_lerp_(slow, fast, 1 - self.decay_rate)
        if now.steps % self.every == 0:
            torch._foreach_copy_(fast, slow)


def _buffers(net: Network) -> State:
    return {name: value for name, value in net.model.named_buffers() if value.is_floating_point()}
