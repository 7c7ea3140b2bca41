"""Rules: what acts on a network while it trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from adalin._seeds import generator
from adalin.structure import Network

State = dict[str, Tensor]
"""A rule's memory: `age.<layer>`, `initial.<part>`, ..."""

Need = Literal["units", "outputs", "gradients", "moments", "steps", "initial", "fresh", "tasks"]
"""What a rule asks for: hidden layers whose units can be replaced one by one; what units gave for the step's batch; the
gradients of the step; the optimiser's moments; a number of steps for each parameter; the first weights; the weights
of a new network; beginnings or ends of tasks."""

NEEDS: dict[Need, str] = {
    "units": "units that can be replaced",
    "outputs": "outputs of units",
    "gradients": "gradients",
    "moments": "the optimiser's moments",
    "steps": "the optimiser's steps",
    "initial": "the first weights",
    "fresh": "a new network's weights",
    "tasks": "ends of tasks",
}
"""Needs in words, in the order in which they are named."""


def no_fresh() -> Sequence[Tensor]:
    raise AssertionError("nobody draws new networks here")


@dataclass(frozen=True, eq=False)
class Now:
    """The moment at which a rule acts."""

    task: int
    """Number of the task, from 0."""
    step: int
    """Number of the step in the task, from 0."""
    steps: int
    """Number of steps made since the run began."""
    lr: float
    """Learning rate."""
    fresh: Callable[[], Sequence[Tensor]] = no_fresh
    """Gives the weights of a newly initialised network, one tensor for each of the network's `weights`, drawn for this
    moment. The next call overwrites them."""
    memory: State = field(default_factory=dict)
    """Memory of the rule, as `Rule.init` made it; it is changed in place, saved and restored."""
    seed: int = 0
    """Seed of what the rule draws."""

    def generator(self, rule: "Rule", *purpose: str | int) -> torch.Generator:
        """Random numbers of a rule's own for this moment."""
        return generator(self.seed, "rule", rule.name, self.task, self.step, *purpose)


@dataclass(frozen=True)
class Rule:
    """Acts on one network in place. Subclasses are frozen dataclasses, whose fields are their options.

    What a rule remembers are named tensors, which `init` makes. They are saved with the network and restored to the
    bit. A hook that is not overridden costs nothing: without one for each step, a network trains without stopping. All
    randomness comes from `now.fresh` and `now.generator`, so that a run goes on exactly where it was stopped.

    Rules are joined with "+": `ReDo(every=1000) + L2Init(1e-3)`.
    """

    name: ClassVar[str]
    """Name in methods' texts."""
    title: ClassVar[str] = ""
    """Name in figures; the name if it is empty."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that it comes from."""
    changes: ClassVar[frozenset[str]] = frozenset()
    """Things that it sets to values of its own choice, such as "units"; two rules that set the same exclude each
    other."""
    opposes: ClassVar[frozenset[str]] = frozenset()
    """Things that no other rule may set beside it."""

    of_plain_sgd: ClassVar[bool] = False
    """Whether it is an optimiser of its own, which SGD without momentum and without decay completes."""

    @property
    def needs(self) -> frozenset[Need]:
        """What it asks for beside the parameters."""
        return frozenset()

    @property
    def period(self) -> int | None:
        """Number of steps after which it acts again: 1 for each step, None if it acts at ends of tasks only."""
        return 1 if overrides(self, "before_step") or overrides(self, "after_step") else None

    @property
    def decay(self) -> float:
        """Strength of L2 regularisation, if that is all that it does; then whoever trains may do it by itself."""
        return 0.0

    @property
    def perturbation(self) -> tuple[float, float] | None:
        """Its (shrink, noise), if weights * shrink + `now.fresh()` * noise after each step is all that it does; then
        whoever trains may do it by itself."""
        return None

    def restarts(self, task: int) -> bool:
        """Whether this task begins with a new network."""
        return False

    def init(self, net: Network) -> State:
        """Its memory before the first step. A tensor of `<name>.<part>` for every part is saved by parameters."""
        return {}

    def start_task(self, net: Network, now: Now) -> None:
        """Before the first step of a task."""

    def before_step(self, net: Network, now: Now) -> None:
        """With the gradients of a step in place, before the optimiser moves anything."""

    def after_step(self, net: Network, now: Now) -> None:
        """After a step."""

    def end_task(self, net: Network, now: Now) -> None:
        """After the last step of a task, before the network is measured."""

    def __add__(self, other: "Rule | Rules") -> "Rules":
        return Rules((self,)) + other

    def _check(self, option: str, is_fine: bool, what: str) -> None:
        if not is_fine:
            raise ValueError(f"option {option} of {self.name} must be {what}, not {getattr(self, option)!r}")


@dataclass(frozen=True)
class Rules:
    """Rules that act together, in this order."""

    rules: tuple[Rule, ...]
    """Rules in the order in which they act."""

    def __add__(self, other: "Rule | Rules") -> "Rules":
        if not isinstance(other, Rule | Rules):
            return NotImplemented
        more = other.rules if isinstance(other, Rules) else (other,)
        return Rules((*self.rules, *more))

    def __post_init__(self) -> None:
        check_together(self.rules)


def check_together(rules: Sequence[Rule]) -> None:
    """Raises ValueError if rules exclude each other."""
    for index, rule in enumerate(rules):
        for other in rules[:index]:
            if rule.name == other.name:
                raise ValueError(f"{rule.name} is there twice")
            if both := rule.changes & other.changes:
                raise ValueError(f"{other.name} and {rule.name} both set {', '.join(sorted(both))}: take one of them")
            if undone := (rule.opposes & other.changes) | (other.opposes & rule.changes):
                raise ValueError(
                    f"{other.name} and {rule.name} exclude each other: one sets {', '.join(sorted(undone))}, "
                    "which the other pulls elsewhere"
                )


def overrides(rule: Rule, hook: str) -> bool:
    """Whether a rule has a hook of its own."""
    return getattr(type(rule), hook) is not getattr(Rule, hook)
