"""Any network: ordinary modules and autograd, one network after the other."""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.methods._rule import overrides
from adalin.nn._param_groups import split_parameters
from adalin.streams import Task
from adalin.training._stack import FreshWeights, Stack, Trainee, accuracies


class ModuleStack(Stack):
    """Networks of any form; nothing is shared but the interface."""

    def __init__(self, trainees: Sequence[Trainee]) -> None:
        super().__init__(trainees)
        self._students = [Student(trainee) for trainee in trainees]

    def start_task(self, task: int, data: Sequence[Task], *, resumed: bool = False) -> None:
        for student, one in zip(self._students, data, strict=True):
            student.start_task(task, one, resumed=resumed)

    def train(self, order: Tensor, batch_size: int, first_step: int = 0) -> Tensor:
        pairs = zip(self._students, order, strict=True)
        return torch.stack([student.train(own, batch_size, first_step) for student, own in pairs])

    def model(self, index: int) -> nn.Module:
        return self.trainees[index].model

    def load(self, index: int, model: nn.Module) -> None:
        self.trainees[index].model.load_state_dict(model.state_dict())

    def state(self, index: int) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.trainees[index].model.state_dict().items()}

    def restore(self, index: int, state: dict[str, Tensor]) -> None:
        self.trainees[index].model.load_state_dict(state)


class Student:
    """One network of the stack, with its data."""

    def __init__(self, trainee: Trainee) -> None:
        # Pooling is nine times as fast with the channels last, and a step of the CNN half as much again.
        self._images = any(isinstance(module, nn.Conv2d) for module in trainee.model.modules())
        layout = torch.channels_last if self._images else torch.contiguous_format
        self._model = trainee.model.to(memory_format=layout).train()  # type: ignore[call-overload]
        self._lr, self._rules = trainee.lr, trainee.rules
        self._parameters = list(trainee.model.parameters())
        self._values = [parameter.detach() for parameter in self._parameters]
        self._weights = [weight.detach()[None] for weight in split_parameters(trainee.model)[0]]
        self._before = [rule for rule in self._rules if overrides(rule, "before_update")]
        self._after = [rule for rule in self._rules if overrides(rule, "after_update")]
        self._new = FreshWeights(trainee) if self._rules else None

    def start_task(self, task: int, data: Task, *, resumed: bool) -> None:
        self._task, self._labels = task, data.labels
        # Stored with the channels last, so that batches are too.
        self._inputs = data.inputs.permute(0, 2, 3, 1).contiguous() if self._images else data.inputs
        if not resumed:
            for rule in self._rules:
                rule.start_task(self._weights, lambda: self._fresh("task", task), task)

    def train(self, order: Tensor, batch_size: int, first_step: int) -> Tensor:
        batches, outputs = order.split(batch_size), []
        for step, rows in enumerate(batches, first_step):
            x = self._inputs.index_select(0, rows)
            logits = self._model(x.permute(0, 3, 1, 2) if self._images else x)
            loss = F.cross_entropy(logits, self._labels.index_select(0, rows))
            gradients = torch.autograd.grad(loss, self._parameters)
            for rule in self._before:
                rule.before_update(self._weights, self._lr)
            torch._foreach_add_(self._values, gradients, alpha=-self._lr)
            for rule in self._after:
                rule.after_update(self._weights, partial(self._fresh, "step", self._task, step))
            outputs.append(logits.detach())
        # Once per epoch; the last batch may be smaller.
        whole = len(order) // batch_size
        parts = [(torch.stack(outputs[:whole]), batches[:whole])] if whole else []
        parts += [(output[None], (rows,)) for output, rows in zip(outputs[whole:], batches[whole:], strict=True)]
        return torch.cat([accuracies(own, self._labels[torch.stack(rows)]) for own, rows in parts])

    def _fresh(self, *purpose: str | int) -> list[Tensor]:
        assert self._new is not None
        return [weight[None] for weight in self._new(*purpose)]
