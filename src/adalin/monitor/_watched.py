"""One network that is watched: when it is looked at, and what is kept for that while it trains."""

import math
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from adalin.monitor._hooks import ForwardHook, Hook, StepCounter
from adalin.monitor._inputs import Call, kept, merged
from adalin.monitor._journal import Journal, ProbeNote
from adalin.monitor._look import Look, Sketch, gradient_norms, gradients_of, healths, sketch_of, weights_of
from adalin.monitor._probe import ProbeResult, probe_calls
from adalin.monitor._twins import State, Twins, copy_of

FIRST_CHECK = 20
"""Steps until the time of one is known."""
MARGIN = 0.8
"""Share of the budget that is planned: looks take longer on a busy machine, and caches are cold after them."""
LONGEST_WINDOW = 64
"""Largest number of steps whose inputs are kept for a look."""
_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """How often and how closely networks are looked at."""

    every: int | None
    budget: float
    samples: int
    gradients: int
    probe: int | None


def plain(model: nn.Module) -> nn.Module:
    """The module inside torch.compile's and the data-parallel wrappers."""
    model = getattr(model, "_orig_mod", model)
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        return plain(model.module)
    return model


def _safely(method: _Method) -> _Method:
    """What goes wrong in a hook switches the monitor off with one warning: training goes on."""

    @wraps(method)
    def guarded(self: "Watched", *arguments: Any) -> None:
        try:
            method(self, *arguments)
        except Exception as error:
            self._leave_later()
            self.off = f"{type(error).__name__}: {error}"
            warn(f"the monitor of {self.label} is switched off, training goes on: {self.off}")

    return guarded  # type: ignore[return-value]


def warn(message: str) -> None:
    """One warning; where warnings are errors it is printed, as training must go on."""
    try:
        warnings.warn(message, UserWarning, stacklevel=3)
    except UserWarning:
        print(message, file=sys.stderr)


class Watched:
    """Looks at one network now and then while any loop trains it."""

    def __init__(
        self,
        name: str,
        model: nn.Module,
        optimizer: Optimizer | None,
        plan: Cadence,
        inputs: Call | None,
        fresh: Callable[[], nn.Module] | None,
        journal: Journal,
    ) -> None:
        self.name, self.model, self.plan = name, plain(model), plan
        self.off = ""
        self._called = model  # hooks inside a compiled model are not called: those of its wrapper are
        self._fresh, self._journal, self._given = fresh, journal, inputs
        self._mine = {id(parameter) for parameter in self.model.parameters()}
        self._first = State.of(self.model)
        self._starts_new = True  # the optimiser had no state when it was first seen, so the first weights are new ones
        self._first_layers: dict[str, dict[str, float]] | None = None
        # Of the window: what is kept for the next look.
        self._window: dict[str, deque[Call]] = {}
        self._kept: deque[Sketch] = deque(maxlen=max(1, plan.gradients))
        self._norms: dict[str, float] = {}
        self._before: dict[str, Tensor] = {}
        self._is_open = self._looking = self._said = self._has_baseline = False
        # Of the cadence.
        self._costs: deque[float] = deque(maxlen=5)
        self._cost = self._spent = self._started = 0.0
        self._checked = (0.0, 0)
        self._look_at = self._next_probe = 0
        self._counter = StepCounter(Hook(self, "_due"))
        self._optimizer: weakref.ref[Optimizer] | None = None
        self._handles: list[Any] = []
        self._temporary: list[Any] = []
        self._finished: list[Any] = []
        weakref.finalize(self, _remove, self._handles, self._temporary, self._finished)
        if optimizer is None:
            self._handles.append(register_optimizer_step_pre_hook(Hook(self, "_search")))
        else:
            self._attach(optimizer)
        self._open()

    # ------------------------------------------------------------------ for whoever asks

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.name or type(self.model).__name__

    @property
    def steps(self) -> int:
        """Steps of its optimiser so far."""
        return self._counter.steps

    @property
    def saw_the_start(self) -> bool:
        """Whether the first look was at new weights, as far as the optimiser's state says."""
        return self._starts_new

    @property
    def share(self) -> float:
        """Share of the time since the first step that looks have taken."""
        elapsed = time.perf_counter() - self._started
        return self._spent / elapsed if self._started and elapsed > 0 else 0.0

    @property
    def calls(self) -> list[Call]:
        """Inputs that were given, or that training used lately."""
        if self._given is not None:
            return [self._given]
        return merged([call for calls in self._window.values() for call in calls])

    @property
    def complaint(self) -> str:
        """One line about what it cannot see; empty if it sees all."""
        if self.off:
            return f"{self.label} is not watched any more: {self.off}"
        if not self.calls:
            return (
                f"{self.label}: no call with gradients has been seen. If it is compiled, watch what torch.compile "
                "returned; if training calls parts of it, watch them by name; or give inputs="
            )
        if self._optimizer is None and not self._said:
            return f"{self.label}: no optimiser has stepped it yet; give optimizer=, or call look() now and then"
        return ""

    def close(self) -> None:
        """Take all hooks away."""
        _remove(self._handles, self._temporary, self._finished)
        self._is_open = False

    def _leave_later(self) -> None:
        """Out of a hook: an optimiser's hooks must not change while it calls them, so they go with the next forward."""
        self._is_open = False
        self._counter.due = sys.maxsize
        optimizer_hooks: list[Any] = []
        forward_hooks: list[Any] = []
        for handle in self._temporary:
            (forward_hooks if isinstance(handle, ForwardHook) else optimizer_hooks).append(handle)
        _remove(forward_hooks)
        self._temporary[:] = optimizer_hooks
        entries = (
            [self._called] if self._called is not self.model else [self.model.get_submodule(n) for n in self._window]
        )
        for module in entries or [self._called]:
            self._temporary.append(ForwardHook(module, Hook(self, "_leave")))

    def _leave(self, *arguments: Any) -> None:
        self.close()

    def look(self) -> Look:
        """Look now, at the inputs that were seen last."""
        before = time.perf_counter()
        look = self._take()
        self._exclude(time.perf_counter() - before)
        return look

    def probe(self, **options: Any) -> ProbeResult:
        """Can it learn random targets on its inputs as fast as fresh weights?"""
        before = time.perf_counter()
        calls = self.calls
        if not calls:
            raise ValueError(self.complaint)
        first = self._first if self._starts_new else None
        result = probe_calls(self.model, calls, twins=Twins(self.model, self._fresh, first), **options)
        self._journal.add_probe(ProbeNote(self.name, self.steps, result))
        self._exclude(time.perf_counter() - before)
        return result

    def _exclude(self, seconds: float) -> None:
        if self._started:
            self._started += seconds  # somebody asked for it: it is not part of training's time
            self._checked = (self._checked[0] + seconds, self._checked[1])

    # ------------------------------------------------------------------ hooks

    @_safely
    def _search(self, optimizer: Optimizer, *more: Any) -> None:
        if any(id(p) in self._mine for group in optimizer.param_groups for p in group["params"]):
            # The hooks of a step must not change while it calls them: this one leaves after the step.
            self._finished += self._handles
            self._handles.clear()
            self._attach(optimizer)

    def _attach(self, optimizer: Optimizer) -> None:
        # Where a new optimiser takes its place, as after a treatment, that one is looked for.
        self._optimizer = weakref.ref(optimizer, Hook(self, "_search_anew"))
        if not self._started:
            self._starts_new = not any(id(p) in self._mine for p in optimizer.state)
        self._handles.append(optimizer.register_step_post_hook(self._counter))
        self._counter.due = 1
        if self._is_open:
            self._temporary.append(optimizer.register_step_pre_hook(Hook(self, "_before_step")))

    @_safely
    def _search_anew(self, *arguments: Any) -> None:
        if self._handles:  # not closed
            self._handles[:] = [register_optimizer_step_pre_hook(Hook(self, "_search"))]

    @_safely
    def _forward(self, entry: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._looking or not torch.is_grad_enabled() or self._is_inside(entry):
            return
        before = time.perf_counter()
        for inner in [name for name in self._window if entry == "" or name.startswith(f"{entry}.")]:
            if inner != entry:
                del self._window[inner]
        calls = self._window.setdefault(entry, deque(maxlen=LONGEST_WINDOW))
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
            calls.append(kept(Call(entry, args, kwargs), self.plan.samples))
            while len(calls) > 1 and sum(call.size or self.plan.samples / 4 for call in calls) > self._enough(calls):
                calls.popleft()
        self._cost += time.perf_counter() - before

    def _is_inside(self, entry: str) -> bool:
        return any(name != entry and (name == "" or entry.startswith(f"{name}.")) for name in self._window)

    def _enough(self, calls: deque[Call]) -> float:
        return self.plan.samples + (calls[0].size or self.plan.samples / 4) - 1

    @_safely
    def _before_step(self, optimizer: Optimizer, *more: Any) -> None:
        if not self._is_open or self._look_at - self.steps > self.plan.gradients:
            return
        before = time.perf_counter()
        sketch = sketch_of(self.model)
        if sketch is not None:
            self._kept.append(sketch)
        is_first = not self._started
        if self._look_at - self.steps <= 1:
            self._norms = gradient_norms(self.model)
            self._before = {name: p.detach().clone() for name, p in self.model.named_parameters() if p.dim() > 1}
        self._cost += time.perf_counter() - before
        if is_first:
            self._started = before
            if self.calls and sketch is not None:
                self._before = {}
                self._scheduled()  # the weights are still what they were
            else:
                self._look_at = self.steps + 1

    @_safely
    def _due(self) -> None:
        _remove(self._finished)
        if not self._is_open:
            if self._may_open():
                self._open()
        elif self._look_at == 0:  # looked at before the first step
            self._plan()
        elif self.steps >= self._look_at:
            self._scheduled()
            self._plan()

    # ------------------------------------------------------------------ when

    def _scheduled(self) -> None:
        before = time.perf_counter()
        self._take()
        cost = time.perf_counter() - before + self._cost
        self._cost = 0.0
        self._costs.append(cost)
        self._spent += cost

    def _plan(self) -> None:
        """After a look nothing is kept until the next window."""
        _remove(self._temporary)
        self._is_open = False
        self._checked = (time.perf_counter(), self.steps)
        every = self.plan.every
        self._look_at = self.steps if every is None else self._look_at + every
        soon = self.steps + FIRST_CHECK
        self._counter.due = soon if every is None else max(self.steps + 1, self._look_at - self._needed())
        if self.plan.probe and self.steps >= self._next_probe:
            self._next_probe = self.steps + self.plan.probe
            self.probe()

    def _needed(self) -> int:
        """Steps whose inputs and gradients a look needs."""
        sizes = [call.size for calls in self._window.values() for call in list(calls)[-1:] if call.size]
        batches = math.ceil(self.plan.samples / min(sizes)) if sizes else 4
        return min(LONGEST_WINDOW, max(self.plan.gradients, batches if self._given is None else 1))

    def _may_open(self) -> bool:
        """Whether the budget allows a look now; if not, the time of the next question is set."""
        needed, now = self._needed(), time.perf_counter()
        if self.plan.every:
            return True
        made = self.steps - self._checked[1]
        step = max((now - self._checked[0]) / max(1, made), 1e-9)
        # The dearest of the last looks, as the share is to be kept, not met on average.
        wanted = (self._spent + max(self._costs)) / (MARGIN * self.plan.budget)
        left = wanted - (now - self._started)
        if left <= needed * step:
            self._look_at = self.steps + needed
            return True
        self._counter.due = self.steps + max(1, min(math.ceil(left / step) - needed, 4 * made + FIRST_CHECK))
        return False

    def _open(self) -> None:
        """From now on inputs and gradients are kept for the next look."""
        self._is_open = True
        self._counter.due = self._look_at
        self._kept.clear()
        if self._given is None:
            entries = set(self._window)  # whose last inputs stay until there are newer ones
            if self._called is not self.model:
                self._temporary.append(ForwardHook(self._called, Hook(self, "_forward", "")))
            else:
                for name, module in self.model.named_modules():
                    if not entries or name in entries:
                        self._temporary.append(ForwardHook(module, Hook(self, "_forward", name)))
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is not None:
            self._temporary.append(optimizer.register_step_pre_hook(Hook(self, "_before_step")))

    # ------------------------------------------------------------------ what

    def _take(self) -> Look:
        before, calls = time.perf_counter(), self.calls
        if not calls and not self._said:
            self._said = True
            warn(self.complaint)
        gradients = gradients_of(list(self._kept), self._norms) if self._kept else None
        weights, overall = weights_of(self.model, self._first.parameters, self._before, gradients)
        self._before = {}
        self._looking = True
        try:
            layers, bases, sites = healths(
                self.model, calls, None if gradients is None else gradients.units, self._first_layers
            )
        finally:
            self._looking = False
        if calls and not layers and not self._said:
            self._said = True
            warn(f"{self.label}: no hidden activation was seen in its forward: looks show its weights alone")
        if layers and not self._has_baseline:
            self._note_baseline(layers, calls)
        seconds = time.perf_counter() - before + self._cost
        look = Look(self.name, self.steps, seconds, layers, weights, overall, bases, sites)
        self._journal.add_look(look)
        return look

    def _note_baseline(self, layers: dict[str, dict[str, float]], calls: list[Call]) -> None:
        """What the layers were at first, on as many inputs as later looks have: the first step saw one batch."""
        seen = sum(call.size or self.plan.samples for call in calls)
        is_full = self._given is not None or seen >= self.plan.samples / 2
        if self._first_layers is None:
            self._first_layers, self._has_baseline = layers, is_full
        elif is_full:
            self._has_baseline = True
            twin = self._first.load(copy_of(self.model))
            again, _, _ = healths(twin, calls)
            for name, numbers in again.items():
                kept = {key: v for key, v in self._first_layers.get(name, {}).items() if key == "gradient_dormant"}
                self._first_layers[name] = numbers | kept


def _remove(*groups: list[Any]) -> None:
    for handles in groups:
        for handle in handles:
            handle.remove()
        handles.clear()
