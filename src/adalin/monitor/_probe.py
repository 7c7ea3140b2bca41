"""The probe: do these weights learn new targets on their inputs as fast as fresh weights do?

Targets are random signs: of each output for each stored input, whether it is to rise or to fall. Aged and fresh weights
start at a loss of log 2 alike, whatever scale their outputs have, and need no labels. Progress is the share of signs
that are right, from 0 (chance) to 1 (all); the score is its mean over the first K steps with Adam.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.metrics import undisturbed
from adalin.monitor._inputs import Call, call_of, kept, merged, outputs_of
from adalin.monitor._look import device_of
from adalin.monitor._twins import Twins, copy_of

SAMPLES = 128
BATCH = 16
STEPS = (50, 100, 200, 400, 800)
"""Numbers of steps that are tried: the first in which a fresh twin gets half of what chance leaves."""
LEARNED = 0.5
DRAWS, MORE_DRAWS = 3, 5
BEHIND = 0.8
"""Ratio below which a network has lost plasticity: all of the interval must be below."""
LR = 1e-3
SMALLEST = 1e-3
"""Smallest score that is told from none."""
# Quantiles of Student's t for 95 %, by degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class ProbeResult:
    """Scores of aged and of fresh weights on the same random targets, one pair per draw."""

    aged: Sequence[float]
    """Mean progress of the network's own weights, from 0 to 1."""
    fresh: Sequence[float]
    """Mean progress of a fresh twin, from 0 to 1."""
    steps: int
    """Steps of each fit."""
    seconds: float
    """Time that it took."""
    origin: str
    """Origin of the fresh weights, for people."""
    curves: Sequence[Sequence[Sequence[float]]] = field(default=(), repr=False)
    """Progress in every step, of each draw: of the aged weights, and of the fresh ones."""

    @property
    def ratio(self) -> float:
        """Score of the aged weights over that of fresh ones: 1 learns as fast, 0 does not learn."""
        return math.exp(statistics.mean(self._logs))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the ratio over draws of targets and twins, by Student's t on its logarithm."""
        logs = self._logs
        if len(logs) < 2:
            return 0.0, math.inf
        quantile = _T[len(logs) - 2] if len(logs) - 2 < len(_T) else 2.0
        half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
        middle = statistics.mean(logs)
        return math.exp(middle - half), math.exp(min(middle + half, 50.0))

    @property
    def twin_learns(self) -> bool:
        """Whether fresh weights learn these targets, without which the ratio says nothing."""
        return statistics.mean(self.fresh) > 0.1

    @property
    def _logs(self) -> list[float]:
        pairs = zip(self.aged, self.fresh, strict=True)
        return [math.log(max(aged, SMALLEST) / max(fresh, SMALLEST)) for aged, fresh in pairs]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        low, high = self.interval
        return {
            "ratio": self.ratio,
            "low": low,
            "high": high if math.isfinite(high) else None,
            "aged": list(self.aged),
            "fresh": list(self.fresh),
            "steps": self.steps,
            "seconds": self.seconds,
            "origin": self.origin,
        }

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.ratio:.2f} of a fresh twin's progress [{low:.2f}, {high:.2f}] in {self.steps} steps"


def probe(
    model: nn.Module,
    inputs: Any,
    *,
    fresh: Callable[[], nn.Module] | None = None,
    draws: int | None = None,
    steps: int | None = None,
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None = None,
    seed: int = 0,
) -> ProbeResult:
    """Compare a network's weights with fresh ones: which learn new targets on its inputs faster?

    A copy of the network and a fresh twin are fitted to the same random targets: for each input and output, whether the
    output is to rise or to fall. A ratio of 1 means that they learn equally fast in the first steps, with Adam, on
    these inputs. It says nothing about a collapse that is still to come. The model and all random states stay as they
    are.

    Args:
        model: any network; its forward gives floating tensors, in any structure.
        inputs: a batch of its own inputs as the model takes it; a tuple stands for several arguments, a dict for
            keyword arguments. 128 are enough.
        fresh: builds a new network; without it the modules' `reset_parameters` draw fresh weights.
        draws: number of targets, each with a twin of its own; by default 3, and 5 if the interval of 3 has both sides
            of 0.8 in it.
        steps: steps of each fit; by default as many as a fresh twin needs to get half of the signs right that chance
            does not, from 50 to 800.
        optimizer: makes the optimiser of the parameters of each copy; Adam with a step size of 0.001 by default.
        seed: seed of targets, twins and batches.

    Examples:
        >>> import torch
        >>> build = lambda: torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        >>> result = probe(build(), torch.randn(64, 8), fresh=build, steps=50)
        >>> 0.7 < result.ratio < 1.4
        True
    """
    call = kept(call_of(inputs), SAMPLES)
    return probe_calls(
        model, [call], twins=Twins(model, fresh), draws=draws, steps=steps, optimizer=optimizer, seed=seed
    )


def probe_calls(
    model: nn.Module,
    calls: Sequence[Call],
    *,
    twins: Twins,
    draws: int | None = None,
    steps: int | None = None,
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None = None,
    seed: int = 0,
) -> ProbeResult:
    """The same for calls that were noted."""
    if (draws is not None and draws < 1) or (steps is not None and steps < 2):
        raise ValueError(f"a probe needs at least 1 draw and 2 steps, not {draws} and {steps}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("the model has no parameter that is trained, so there is nothing to probe")
    before = time.perf_counter()
    with undisturbed(model, device_of(model)), torch.enable_grad():
        fit = _Fit(_largest(model, calls), optimizer, seed)
        if steps is None:
            torch.manual_seed(seed)
            steps = len(fit(twins.draw(fit.generator(0)), draw=-1, most=STEPS[-1], until_learned=True))
        result = ProbeResult([], [], steps, 0.0, twins.origin)
        for draw in range(draws or MORE_DRAWS):
            if draw == DRAWS and draws is None and not _is_undecided(result):
                break
            torch.manual_seed(seed + 1 + draw)
            twin = twins.draw(fit.generator(1 + draw))
            curves = [fit(copy_of(model), draw=draw, most=steps), fit(twin, draw=draw, most=steps)]
            aged, fresh = (statistics.mean(max(0.0, p) for p in curve) for curve in curves)
            result = replace(
                result, aged=[*result.aged, aged], fresh=[*result.fresh, fresh], curves=[*result.curves, curves]
            )
    return replace(result, seconds=time.perf_counter() - before)


def _is_undecided(result: ProbeResult) -> bool:
    low, high = result.interval
    return low < BEHIND < high


def _largest(model: nn.Module, calls: Sequence[Call]) -> list[Call]:
    """The calls of that part of the model which holds most of its parameters: where training calls several."""
    sizes = {call.entry: sum(p.numel() for p in model.get_submodule(call.entry).parameters()) for call in calls}
    entry = max(sizes, key=lambda name: sizes[name])
    own = [call for call in merged(calls) if call.entry == entry]
    return [kept(call, SAMPLES) for call in own]


@dataclass(frozen=True)
class _Fit:
    """Fits one network to random signs; gives its progress in every step."""

    calls: Sequence[Call]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None
    seed: int

    def generator(self, purpose: int) -> torch.Generator:
        return torch.Generator().manual_seed(1_000_003 * (self.seed + 1) + purpose)

    def __call__(self, model: nn.Module, *, draw: int, most: int, until_learned: bool = False) -> list[float]:
        model.train()
        for module in model.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd) or "Drop" in type(module).__name__:
                module.eval()  # norms as in training, but no noise
        parameters = [p for p in model.parameters() if p.requires_grad]
        make = self.optimizer or (lambda own: torch.optim.Adam(own, lr=LR))
        optimizer = make(parameters)
        with torch.no_grad():
            starts = [outputs_of(call.of(model)) for call in self.calls]
        draws = self.generator(10_000 + draw)
        signs = [(torch.randint(0, 2, start.shape, generator=draws) * 2.0 - 1).to(start.device) for start in starts]
        progress: list[Tensor] = []
        for _ in range(most):
            if until_learned and len(progress) in STEPS and _mean_of_end(progress) >= LEARNED:
                break
            which = int(torch.randint(len(self.calls), (1,), generator=draws))
            call, start, sign = self.calls[which], starts[which], signs[which]
            if call.size is not None and call.size > BATCH:
                rows = torch.randperm(call.size, generator=draws)[:BATCH]
                call = call.pick(rows)
                if call.size is not None and len(start) == len(sign) and len(start) > int(rows.max()):
                    start, sign = start[rows.to(start.device)], sign[rows.to(sign.device)]
            margin = (outputs_of(call.of(model)) - start) * sign
            loss = F.softplus(-margin).mean()
            # In the first step no output has changed: nothing is right.
            progress.append(2 * (margin.detach() > 0).float().mean() - 1 if progress else margin.new_zeros(()).detach())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return torch.stack(progress).tolist()


def _mean_of_end(progress: Sequence[Tensor]) -> float:
    return torch.stack(list(progress[-max(10, len(progress) // 4) :])).mean().item()
