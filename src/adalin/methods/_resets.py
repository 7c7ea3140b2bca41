"""Resets at fixed times: of the whole network, of its last layer, of the optimiser."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.methods._replace import moments_of
from adalin.methods._rule import Need, Now, Rule
from adalin.structure import Network


@dataclass(frozen=True)
class TimedReset(Rule, ABC):
    """Acts every so many steps; with 0, at the start of each task but the first."""

    every: int = 0
    """Number of steps from one reset to the next; 0 for one at the start of each task but the first."""

    def __post_init__(self) -> None:
        self._check("every", self.every >= 0, "a whole number >= 0")

    @property
    def period(self) -> int | None:
        return self.every or None

    def start_task(self, net: Network, now: Now) -> None:
        if not self.every and now.task > 0:
            self.act(net, now)

    def after_step(self, net: Network, now: Now) -> None:
        self.act(net, now)

    @abstractmethod
    def act(self, net: Network, now: Now) -> None:
        """Reset what this rule resets."""


@dataclass(frozen=True)
class OptimizerReset(TimedReset):
    """The optimiser forgets everything: moments and steps become 0 (Asadi et al. 2023)."""

    name = "optimizer-reset"
    title = "Optimiser reset"
    summary = "lets the optimiser forget everything at fixed times"
    paper = "Asadi et al. 2023"

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"moments"} if self.every else {"moments", "tasks"})

    def act(self, net: Network, now: Now) -> None:
        for value in net.memory.values():
            value.zero_()


@dataclass(frozen=True)
class HeadReset(TimedReset):
    """The last layer becomes new (Nikishin et al. 2022): its weights, its bias, their moments."""

    name = "head-reset"
    title = "Head reset"
    summary = "makes the last layer new at fixed times"
    paper = "Nikishin et al. 2022"
    changes = frozenset({"the last layer"})

    @property
    def needs(self) -> frozenset[Need]:
        own: frozenset[Need] = frozenset({"units", "fresh", "moments"})
        return own if self.every else own | {"tasks"}

    def act(self, net: Network, now: Now) -> None:
        fed = {edge.parameter for layer in net.layers for edge in layer.incoming}
        read = {edge.parameter for layer in net.layers for edge in layer.outgoing}
        heads = {name.rpartition(".")[0] for name in read - fed}
        new = fresh_params(net, now)
        for name in net.weight_names:
            if name.rpartition(".")[0] in heads:
                renew(net, name, new)


@dataclass(frozen=True)
class FullReset(TimedReset):
    """All weights and biases become new, and the optimiser forgets everything (D'Oro et al. 2023).

    Alphas and norms begin anew too. Data, such as a replay buffer, stay.
    """

    name = "reset"
    title = "Full reset"
    summary = "makes the whole network new at fixed times"
    paper = "D'Oro et al. 2023"
    changes = frozenset({"units", "the last layer"})

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"fresh", "moments"} if self.every else {"fresh", "moments", "tasks"})

    def act(self, net: Network, now: Now) -> None:
        new = fresh_params(net, now)
        begin_anew(net, now.generator(self))
        for name in net.weight_names:
            renew(net, name, new)
        for value in net.memory.values():
            value.zero_()


def fresh_params(net: Network, now: Now) -> Mapping[str, Tensor]:
    """Parameters of a new network by their names; alphas and norms as they are."""
    weights = iter(now.fresh())
    return net.named([next(weights) if part.is_weight else part.value for part in net.parts])


def renew(net: Network, name: str, new: Mapping[str, Tensor]) -> None:
    """Give a parameter, its mirrors and its moments first values."""
    for own in (net, *net.mirrors):
        own.params[name].copy_(new[name])
    for moment in moments_of(net, name):
        moment.zero_()


def begin_anew(net: Network, generator: torch.Generator) -> None:
    """Let every module draw its parameters and statistics again."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.set_state(generator.get_state())
        for module in net.model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]
    for mirror in net.mirrors:
        mirror.model.load_state_dict(net.model.state_dict())
