"""Any network: ordinary modules and autograd, one network after the other."""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin._hardware import Hardware
from adalin._seeds import generator, seeded
from adalin.data import augment
from adalin.engine._fresh import FreshWeights
from adalin.engine._stack import NetworkSpec, Stack, accuracies, rule_weights
from adalin.methods import overrides
from adalin.nn import split_parameters
from adalin.streams import Task

CHUNK = 500
"""How many images pass at once where no gradient is needed."""


class ModuleStack(Stack):
    """Networks of any form; nothing is shared but the interface."""

    def __init__(self, specs: Sequence[NetworkSpec], hardware: Hardware | None = None) -> None:
        super().__init__(specs)
        self._networks = [Network(spec, hardware or Hardware()) for spec in specs]

    def start_task(self, task: int, data: Sequence[Task], *, resumed: bool = False) -> None:
        for network, one in zip(self._networks, data, strict=True):
            network.start_task(task, one, resumed=resumed)

    def train(self, order: Tensor, batch_size: int, first_step: int = 0) -> Tensor:
        pairs = zip(self._networks, order, strict=True)
        return torch.stack([network.train(own, batch_size, first_step) for network, own in pairs])

    def end_task(self) -> None:
        for network in self._networks:
            network.end_task()

    def model(self, index: int) -> nn.Module:
        return self.specs[index].model

    def load(self, index: int, model: nn.Module) -> None:
        self.specs[index].model.load_state_dict(model.state_dict())
        self._networks[index].forget_velocity()

    def state(self, index: int) -> dict[str, Tensor]:
        return {name: value.to("cpu", copy=True) for name, value in self._networks[index].state().items()}

    def restore(self, index: int, state: dict[str, Tensor]) -> None:
        self._networks[index].restore(state)


class Network:
    """One network of the stack, with its data."""

    def __init__(self, spec: NetworkSpec, hardware: Hardware) -> None:
        self._new = FreshWeights(spec) if spec.rules else None  # before the model is on its device
        # Pooling is nine times as fast with the channels last, and a step of the CNN half as much again.
        self._images = any(isinstance(module, nn.Conv2d) for module in spec.model.modules())
        layout = torch.channels_last if self._images else torch.contiguous_format
        self._model = spec.model.to(hardware.device, memory_format=layout).train()  # type: ignore[call-overload]
        self._spec, self._hardware = spec, hardware
        self._forward = hardware.forward_of(self._model)
        self._preset, self._rules = spec.preset, spec.rules
        self._parameters = [parameter for parameter in spec.model.parameters() if parameter.requires_grad]
        self._values = [parameter.detach() for parameter in self._parameters]
        self._weights = [weight.detach()[None] for weight in rule_weights(spec.model)]
        decayed = {id(weight) for weight in split_parameters(spec.model)[0]}
        self._decay = [self._preset.weight_decay * (id(parameter) in decayed) for parameter in self._parameters]
        self._velocity = [torch.zeros_like(value) for value in self._values] if self._preset.momentum else []
        self._best: dict[str, Tensor] = {}
        self._before = [rule for rule in self._rules if overrides(rule, "before_update")]
        self._after = [rule for rule in self._rules if overrides(rule, "after_update")]

    def start_task(self, task: int, data: Task, *, resumed: bool) -> None:
        self._task, self._data, device = task, data, self._hardware.device
        self._classes = data.labels.unique().to(device)
        self._labels = self._targets(data.labels.to(device))
        # Stored with the channels last, so that batches are too.
        inputs = data.inputs.permute(0, 2, 3, 1).contiguous() if self._images else data.inputs
        self._inputs = inputs.to(device)
        if resumed:
            return
        self._best = {}
        for rule in self._rules:
            rule.start_task(self._weights, lambda: self._fresh("task", task), task)

    def train(self, order: Tensor, batch_size: int, first_step: int) -> Tensor:
        batches, outputs = order.to(self._hardware.device).split(batch_size), []
        per_epoch = -(-len(self._inputs) // batch_size)
        for step, rows in enumerate(batches, first_step):
            with seeded(self._spec.seed, "forward", self._task, step, device=self._hardware.device):  # for dropout
                logits = self._logits(self._batch(rows, step))
            loss = F.cross_entropy(logits, self._labels.index_select(0, rows))
            gradients = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
            self._update(gradients, self._spec.lr * self._preset.lr_factor(step // per_epoch), step)
            outputs.append(logits.detach())
            if self._preset.best_validation and (step + 1) % per_epoch == 0:
                self._validate()
        # All at once; the last batch of an epoch may be smaller.
        whole = len(order) // batch_size
        parts = [(torch.stack(outputs[:whole]), batches[:whole])] if whole else []
        parts += [(output[None], (rows,)) for output, rows in zip(outputs[whole:], batches[whole:], strict=True)]
        return torch.cat([accuracies(own, self._labels[torch.stack(rows)]) for own, rows in parts]).cpu()

    def forget_velocity(self) -> None:
        for velocity in self._velocity:
            velocity.zero_()

    def end_task(self) -> None:
        if self._best:
            self._model.load_state_dict({name: value for name, value in self._best.items() if name != ACCURACY})

    def state(self) -> dict[str, Tensor]:
        state = dict(self._model.state_dict())
        state |= {f"velocity.{index}": velocity for index, velocity in enumerate(self._velocity)}
        return state | {f"best.{name}": value for name, value in self._best.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        self._model.load_state_dict({name: state[name] for name in self._model.state_dict()})
        for index, velocity in enumerate(self._velocity):
            velocity.copy_(state[f"velocity.{index}"])
        device = self._hardware.device
        self._best = {
            name.removeprefix("best."): value.to(device) for name, value in state.items() if name.startswith("best.")
        }

    def _batch(self, rows: Tensor, step: int) -> Tensor:
        x = self._inputs.index_select(0, rows)
        x = x.permute(0, 3, 1, 2) if self._images else x
        if self._preset.augmented:
            # After scaling, which standardises: what rotation brings in from beyond the edge is the mean, not black.
            return augment(self._data.floats(x), generator(self._spec.seed, "augment", self._task, step))
        return self._data.floats(x)

    def _logits(self, x: Tensor) -> Tensor:
        with self._hardware.autocast(self._spec.precision):
            logits = self._forward(x)
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits
        return logits[:, self._classes] if self._preset.only_seen else logits

    def _targets(self, labels: Tensor) -> Tensor:
        return torch.searchsorted(self._classes, labels) if self._preset.only_seen else labels

    def _update(self, gradients: tuple[Tensor, ...], lr: float, step: int) -> None:
        if self._spec.clip is not None:
            _clip(gradients, self._spec.clip)
        for rule in self._before:
            rule.before_update(self._weights, lr)
        if self._preset.weight_decay:
            torch._foreach_add_(gradients, torch._foreach_mul(self._values, self._decay))
        if self._velocity:
            torch._foreach_mul_(self._velocity, self._preset.momentum)
            torch._foreach_add_(self._velocity, gradients)
        torch._foreach_add_(self._values, self._velocity or gradients, alpha=-lr)
        for rule in self._after:
            rule.after_update(self._weights, partial(self._fresh, "step", self._task, step))

    @torch.no_grad()
    def _validate(self) -> None:
        """Keep a copy of the network if it has never been as good in this task."""
        assert self._data.validation is not None, "which `define_runs` makes sure of"
        inputs, labels = self._data.validation()
        self._model.eval()
        device = self._hardware.device
        pairs = zip(inputs.split(CHUNK), self._targets(labels.to(device)).split(CHUNK), strict=True)
        right = [self._logits(x.to(device)).argmax(1) == y for x, y in pairs]
        self._model.train()
        accuracy = torch.cat(right).double().mean()
        if not self._best or accuracy > self._best[ACCURACY]:
            self._best = {name: value.clone() for name, value in self._model.state_dict().items()}
            self._best[ACCURACY] = accuracy

    def _fresh(self, *purpose: str | int) -> list[Tensor]:
        assert self._new is not None
        return [weight[None].to(self._hardware.device) for weight in self._new(*purpose)]


ACCURACY = "validation accuracy"
"""Among the tensors of the best network."""


def _clip(gradients: tuple[Tensor, ...], norm: float) -> None:
    """As torch.nn.utils.clip_grad_norm_ does it."""
    total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (norm / (total + 1e-6)).clamp(max=1.0))
