from dataclasses import dataclass

from adalin.methods._rule import Need, Rule


@dataclass(frozen=True)
class Scratch(Rule):
    """A new network, weights and alphas, at the start of each task: what can be learnt without a past."""

    name = "scratch"
    title = "Scratch"
    summary = "a new network for every task"

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"fresh", "tasks"})

    def restarts(self, task: int) -> bool:
        return task > 0
