"""How one network learns: an engine computes gradients, an optimiser moves the weights, rules act between steps."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from adalin.engine._fresh import FreshWeights
from adalin.engine._gram import Gram
from adalin.engine._module_net import ModuleNet
from adalin.engine._net import Net, Steps, Update, clip_gradients
from adalin.engine._preset import PLAIN, Preset
from adalin.methods import ActingRules, Rule, overrides
from adalin.native import Perturbation
from adalin.optim import SGD, Optimizer, named_memory, separate_steps
from adalin.streams import Task

CALL_SECONDS = 0.1
"""Longest time that one call should take: signals, saves and progress have their turn between calls."""
FIRST_CALL = 10
"""Steps of the first call, before it is known how long they take."""
NETWORK = "network."
"""Beginning of names in a state: of parameters, and what else an engine keeps."""
OPTIMIZER, RULES, BEST = "optimizer.", "rules.", "best."
"""Those of the memories of the optimiser and of rules, and of the best network so far."""
ACCURACY = "validation accuracy"
"""Name, among the tensors of the best network, of the number that made it so."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Learning:
    """How a network is trained, beside the optimiser."""

    lr: float
    """Learning rate."""
    batch_size: int
    """Images per step."""
    rules: tuple[Rule, ...] = ()
    """Rules of the method, in their order."""
    clip: float | None = None
    """Largest norm of a gradient; larger ones are scaled down to it."""
    preset: Preset = PLAIN
    """Protocol."""
    seed: int = 0
    """Seed of what rules draw."""
    init: str = "default"
    """Name of the first weights, which rules may draw anew."""


class Learner:
    """One network while it learns.

    Args:
        net: the network, and the engine that computes its gradients.
        optimizer: what moves its weights.
        learning: how.
        new_model: network with the first weights of a task, for rules that start anew.
        gram: products of the stream's inputs with each other, for engines that can train by them.
    """

    def __init__(
        self,
        net: Net,
        optimizer: Optimizer,
        learning: Learning,
        *,
        new_model: Callable[[int], nn.Module] | None = None,
        gram: Callable[[], Gram | None] = lambda: None,
    ) -> None:
        self.net, self.learning = net, learning
        self.steps = 0
        """Steps made since the run began."""
        self._new_model, self._gram = new_model, gram
        self._schedule = optimizer
        self._decay, acting = _folded(optimizer, learning.rules)
        self._is_plain = isinstance(optimizer, SGD) and not optimizer.momentum
        # Plain SGD's decay is a number that weights are multiplied with; others do it by themselves.
        self._optimizer = replace(optimizer, weight_decay=0.0 if self._is_plain else self._decay)
        self._fresh = FreshWeights(net, learning.seed, learning.init) if learning.rules else None
        self._perturbation, acting = self._folded_perturbation(acting)
        draw = None if self._fresh is None else self._fresh.draw
        self._rules = ActingRules(learning.rules, net, learning.seed, draw, stepping=acting)
        if "outputs" in self._rules.needs:
            net.watch()
        self._forget()
        self._best: dict[str, Tensor] = {}
        self._restored: Mapping[str, Tensor] | None = None
        self._per_call = FIRST_CALL

    @property
    def learns_by_outputs(self) -> bool:
        """Whether all that happens to weights is that gradients are subtracted and that they are scaled.

        Only then can an engine train a first layer by its outputs.
        """
        acting = self._rules.in_steps or self._perturbation is not None
        return self._is_plain and not acting and self.learning.clip is None

    @torch.no_grad()
    def start_task(self, task: int, data: Task, steps: int, *, resumed: bool = False) -> None:
        """Take the data of a task of so many steps; unless it is resumed, let the rules act."""
        self._task, self._data = task, data
        self._per_epoch = -(-len(data.inputs) // self.learning.batch_size)
        self._epochs = -(-steps // self._per_epoch)
        if not resumed:
            self._best = {}
            if self._restored is not None:
                self.net.restore(self._restored)
            if any(rule.restarts(task) for rule in self.learning.rules):
                self._restart(task)
            self._call("start_task", 0)
        by_outputs = self.net.engine != ModuleNet.engine and self.learns_by_outputs
        self.net.start_task(task, data, self._gram() if by_outputs else None)
        if resumed and self._restored is not None:
            self.net.restore(self._restored)
        self._restored = None

    def train(self, order: Tensor, first_step: int) -> Steps:
        """Make the first steps of what is left of an epoch: as many as take about a tenth of a second, at least one.

        How many does not change what is computed. It ends before the first step whose outputs are not finite.
        """
        batches = -(-len(order) // self.learning.batch_size)
        count = min(batches, self._per_call)
        start = time.perf_counter()
        made = self._make(order[: count * self.learning.batch_size], first_step)
        seconds = time.perf_counter() - start
        self._per_call = max(1, int(count * CALL_SECONDS / max(seconds, 1e-6)))
        if self.learning.preset.best_validation and (first_step + len(made)) % self._per_epoch == 0:
            self._validate()
        return made

    @torch.no_grad()
    def end_task(self, step: int) -> None:
        """Bring the network to what is measured, after so many steps of the task."""
        self.net.end_task()
        self._call("end_task", step)
        if self._best:
            self.net.model.load_state_dict({name: value for name, value in self._best.items() if name != ACCURACY})

    def state(self) -> dict[str, Tensor]:
        """A copy, on the CPU, of all that `restore` needs to go on from here, by names that no engine changes."""
        own = self.net.state()  # first: it may bring the parameters up to date
        state = {"steps": torch.tensor(self.steps)}
        state |= {NETWORK + name: value for name, value in {**self.net.params, **own}.items()}
        state |= {OPTIMIZER + name: value for name, value in named_memory(self.net, self._memory).items()}
        state |= {RULES + name: value for name, value in self._rules.named().items()}
        state |= {BEST + name: value for name, value in self._best.items()}
        return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in state.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state; `start_task` comes next, with the task that it was in, or the next one."""
        for name, value in self.net.params.items():
            value.copy_(state[NETWORK + name])
        for name, value in named_memory(self.net, self._memory).items():
            value.copy_(state[OPTIMIZER + name])
        self._rules.restore(_below(RULES, state))
        self.steps = int(state["steps"])
        device = next(self.net.model.parameters()).device
        self._best = {name: value.to(device) for name, value in _below(BEST, state).items()}
        self._restored = _below(NETWORK, state)

    def _make(self, order: Tensor, first_step: int) -> Steps:
        """All steps of an order, in pieces between which rules act."""
        batch, update = self.learning.batch_size, self._update(first_step)
        made: list[Steps] = []
        step = first_step
        while len(order):
            quiet = self._rules.quiet_steps(self.steps, len(order))
            acting = self._rules.acting(self.steps)
            piece, order = order[: max(quiet, 1) * batch], order[max(quiet, 1) * batch :]
            if quiet or not any(map(_looks_into_steps, acting)):
                made.append(self.net.train_steps(piece, batch, step, update))
            else:
                made.append(self._step(piece, step, update, acting))
            count = len(made[-1])
            self.steps += count
            if made[-1].diverged:
                break
            if not quiet:
                self._call("after_step", step, acting)
            step += count
        return Steps.joined(made)

    def _step(self, rows: Tensor, step: int, update: Update, rules: Sequence[Rule]) -> Steps:
        """One step, in which rules see the gradients."""
        made = self.net.compute_gradients(rows, step)
        if not made.diverged:
            if update.clip is not None:
                clip_gradients([part.grad for part in self.net.parts], update.clip)
            self._call("before_step", step, rules)
            update.move(self.net)
        return made

    def _update(self, step: int) -> Update:
        epoch = step // self._per_epoch
        factor = self._schedule.lr_factor(epoch, self._epochs) * self.learning.preset.lr_factor(epoch)
        self._lr = self.learning.lr * factor
        shrink = 1.0 - self._lr * self._decay if self._is_plain else 1.0
        if self._perturbation is not None:
            assert self._fresh is not None
            self._perturbation.start(self._fresh.key("after_step", self._task), step)
        return Update(self._optimizer, self._memory, self._lr, shrink, self.learning.clip, self._perturbation)

    def _folded_perturbation(self, rules: list[Rule]) -> tuple[Perturbation | None, list[Rule]]:
        """What a native network does in the place of the one rule that acts after steps, if it can; and the others."""
        acting = [rule for rule in rules if overrides(rule, "after_step") and rule.period is not None]
        own = acting[0].perturbation if len(acting) == 1 else None
        if own is None or self._fresh is None or self.net.kernels is None:
            return None, rules
        found = self._fresh.perturbation(self.net, *own, self.net.kernels)
        return found, rules if found is None else [rule for rule in rules if rule is not acting[0]]

    def _call(self, hook: str, step: int, rules: Sequence[Rule] | None = None) -> None:
        """Let those rules act that have a hook of their own."""
        lr = self._lr if hook.endswith("step") else self.learning.lr
        self._rules.call(hook, self._task, step, self.steps, lr, rules)

    def _restart(self, task: int) -> None:
        """A new network, which inherits nothing."""
        assert self._new_model is not None, "rules that start anew need new networks"
        self.net.model.load_state_dict(self._new_model(task).state_dict())
        self._forget()
        self._rules.init()

    def _forget(self) -> None:
        """Give the optimiser an empty memory."""
        parts = self.net.parts
        memory = self._optimizer.init(parts)
        self._memory = separate_steps(parts, memory) if "steps" in self._rules.needs else memory
        self.net.memory = named_memory(self.net, self._memory)

    @torch.no_grad()
    def _validate(self) -> None:
        """Keep a copy of the network if it has never been as good in this task."""
        assert self._data.validation is not None, "which the definition of runs makes sure of"
        assert isinstance(self.net, ModuleNet)
        accuracy = self.net.accuracy(*self._data.validation())
        if not self._best or accuracy > self._best[ACCURACY]:
            self._best = {name: value.clone() for name, value in self.net.model.state_dict().items()}
            self._best[ACCURACY] = torch.tensor(accuracy, dtype=torch.float64)


def _below(start: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def _looks_into_steps(rule: Rule) -> bool:
    """Whether it asks for what only a step by itself leaves behind."""
    return overrides(rule, "before_step") or bool(rule.needs & {"outputs", "gradients"})


def _folded(optimizer: Optimizer, rules: Sequence[Rule]) -> tuple[float, list[Rule]]:
    """Strength of all decay in the gradient, and the rules that are left to act by themselves.

    A rule's decay becomes the optimiser's unless another rule is to see it in the gradient.
    """
    others = [rule for rule in rules if not rule.decay]
    if not optimizer.decays_in_gradient or any(overrides(rule, "before_step") for rule in others):
        return optimizer.weight_decay, list(rules)
    return optimizer.weight_decay + sum(rule.decay for rule in rules), others
