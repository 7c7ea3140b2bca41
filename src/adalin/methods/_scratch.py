from dataclasses import dataclass

from adalin.methods._rule import Rule


@dataclass(frozen=True)
class Scratch(Rule):
    """A new network, weights and alphas, at the start of each task: what can be learnt without a past."""

    name = "scratch"
    title = "Scratch"
    summary = "a new network for every task"

    def restarts(self, task: int) -> bool:
        return task > 0
