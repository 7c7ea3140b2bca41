"""Rules at work on one network: who acts when, and what each of them remembers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from adalin.methods._rule import Now, Rule, State, no_fresh, overrides
from adalin.optim import named_memory
from adalin.structure import Network


class ActingRules:
    """Some rules, with their memory of one network.

    Args:
        rules: the rules, in the order in which they act.
        net: the network.
        seed: seed of what they draw.
        fresh: gives the weights of a new network for (hook, task, step).
        stepping: those that act in steps; by default all that have a period.
        waiting: those that begin later, by `init`.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        net: Network,
        seed: int,
        fresh: Callable[..., Sequence[Tensor]] | None = None,
        *,
        stepping: Sequence[Rule] | None = None,
        waiting: Sequence[Rule] = (),
    ) -> None:
        self.rules, self._net, self._seed, self._fresh = tuple(rules), net, seed, fresh
        self.needs = frozenset[str]().union(*(rule.needs for rule in rules))
        """What they ask for beside the parameters."""
        periods = [(rule, rule.period) for rule in (rules if stepping is None else stepping)]
        self._periods = [(rule, period) for rule, period in periods if period is not None]
        self._memory: dict[str, State] = {}
        self.init([rule for rule in rules if rule not in waiting])

    @torch.no_grad()
    def init(self, rules: Sequence[Rule] | None = None) -> None:
        """Let some rules, or all, begin with an empty memory: the network is new."""
        for rule in self.rules if rules is None else rules:
            self._memory[rule.name] = rule.init(self._net)

    @property
    def in_steps(self) -> bool:
        """Whether any of them acts before the end of a task."""
        return bool(self._periods)

    def quiet_steps(self, steps: int, most: int) -> int:
        """Number of steps, after so many and at most `most`, until the one in which a rule acts."""
        return min((period - 1 - steps % period for _, period in self._periods), default=most)

    def acting(self, steps: int) -> list[Rule]:
        """Rules that act in the step after so many."""
        return [rule for rule, period in self._periods if (steps + 1) % period == 0]

    def call(self, hook: str, task: int, step: int, steps: int, lr: float, rules: Sequence[Rule] | None = None) -> None:
        """Let those rules act that have a hook of their own."""
        acting = [rule for rule in (self.rules if rules is None else rules) if overrides(rule, hook)]
        if not acting:
            return
        fresh = no_fresh if self._fresh is None else partial(self._fresh, hook, task, step)
        with torch.no_grad():
            for rule in acting:
                now = Now(task, step, steps, lr, fresh, self._memory[rule.name], self._seed)
                getattr(rule, hook)(self._net, now)

    def named(self) -> dict[str, Tensor]:
        """All that they remember, by names that no engine changes: `<rule>.<what>.<parameter or layer>`."""
        return {
            f"{rule}.{name}": value
            for rule, memory in self._memory.items()
            for name, value in named_memory(self._net, memory).items()
        }

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `named` gave."""
        for name, value in self.named().items():
            value.copy_(state[name])
