from dataclasses import dataclass

from adalin.methods._rule import Need, Now, Rule
from adalin.structure import Network


@dataclass(frozen=True)
class ShrinkPerturb(Rule):
    """Shrink & Perturb (Ash & Adams 2020): p <- shrink * p + noise * p', p' from a freshly initialised network.

    After every gradient step, as in Kumar et al. 2023, or at the start of each task but the first. Alphas are left
    alone: theirs are drawn from U(0, 1), and a noise whose mean is not 0 would add up.
    """

    name = "shrink-perturb"
    title = "Shrink & Perturb"
    summary = "shrinks the weights and adds those of a fresh network, a little after every step"
    paper = "Ash & Adams 2020; Kumar et al. 2023"

    shrink: float = 1 - 1e-4
    """Number that weights are multiplied with."""
    noise: float = 1e-2
    """Share of a new network's weights that is added."""
    every: str = "step"
    """Moment at which it acts: every "step" or every "task"."""

    def __post_init__(self) -> None:
        if not 0 <= self.shrink <= 1:
            raise ValueError(f"the shrink of shrink-perturb must be between 0 and 1, not {self.shrink}")
        if not 0 <= self.noise < float("inf"):
            raise ValueError(f"the noise of shrink-perturb must be a number >= 0, not {self.noise}")
        if self.every not in ("step", "task"):
            raise ValueError(f"shrink-perturb acts every 'step' or every 'task', not {self.every!r}")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"fresh"} if self.every == "step" else {"fresh", "tasks"})

    @property
    def period(self) -> int | None:
        return 1 if self.every == "step" else None

    @property
    def perturbation(self) -> tuple[float, float] | None:
        is_all = self.every == "step" and type(self) is ShrinkPerturb
        return (self.shrink, self.noise) if is_all else None

    def start_task(self, net: Network, now: Now) -> None:
        if self.every == "task" and now.task > 0:
            self._act(net, now)

    def after_step(self, net: Network, now: Now) -> None:
        if self.every == "step":
            self._act(net, now)

    def _act(self, net: Network, now: Now) -> None:
        for part, new in zip(net.weights, now.fresh(), strict=True):
            part.value.mul_(self.shrink).add_(new, alpha=self.noise)
