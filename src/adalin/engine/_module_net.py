"""Any network, by autograd: the specification of what an engine computes."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin._hardware import Hardware
from adalin._seeds import generator, seeded
from adalin.data import augment
from adalin.engine._gram import Gram
from adalin.engine._net import Net, Steps, Update
from adalin.engine._watched import WatchedOutputs
from adalin.nn import MODULES, AdaLin, CReLU, DeepFourier, Fixed, Interpolation, split_parameters
from adalin.streams import Task
from adalin.structure import Part

Answers = tuple[Tensor, Tensor]
"""Outputs for a batch before its update, and their loss."""
NEVER_DRAW = frozenset(
    {nn.Sequential, nn.Flatten, nn.Linear, nn.LayerNorm, nn.Conv2d, nn.MaxPool2d, *MODULES}
    | {AdaLin, Fixed, Interpolation, CReLU, DeepFourier}
) - {nn.RReLU}
"""Classes of modules that draw no random numbers; of all others nobody knows."""
NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


class ModuleNet(Net):
    """A module on a device, with its images.

    Args:
        model: the network, which is moved to the device; what requires no gradient is not trained.
        hardware: device and compiler.
        seed: seed of dropout and augmentation.
        precision: precision of matrix products, float32 or bfloat16.
        augmented: whether images are flipped, cropped and rotated at random.
        only_seen: whether the softmax is over the classes in the task's training data only.
    """

    engine = "module"

    def __init__(
        self,
        model: nn.Module,
        hardware: Hardware | None = None,
        *,
        seed: int = 0,
        precision: str = "float32",
        augmented: bool = False,
        only_seen: bool = False,
    ) -> None:
        self._hardware = hardware or Hardware()
        # Pooling is nine times as fast with the channels last, and a step of the CNN half as much again.
        self._images = any(isinstance(module, nn.Conv2d) for module in model.modules())
        layout = torch.channels_last if self._images else torch.contiguous_format
        self.model = model.to(self._hardware.device, memory_format=layout).train()  # type: ignore[call-overload]
        self._forward = self._hardware.forward_of(self.model)
        self._seed, self._precision = seed, precision
        self._augmented, self._only_seen = augmented, only_seen
        self._parameters = {name: own for name, own in model.named_parameters() if own.requires_grad}
        weights = {id(weight) for weight in weights_of(model)}
        self.parts = tuple(
            Part(name, own.detach(), torch.zeros_like(own), id(own) in weights)
            for name, own in self._parameters.items()
        )
        self._trained, self._grads = list(self._parameters.values()), [part.grad for part in self.parts]
        self._draws = any(
            type(module) not in NEVER_DRAW or module._forward_hooks or module._forward_pre_hooks
            for module in model.modules()
        )
        self._buffers = list(self.model.buffers())
        self._before = [buffer.clone() for buffer in self._buffers]
        self._batch = self._outputs = torch.empty(0)
        self._watched: WatchedOutputs | None = None

    def watch(self) -> None:
        self._watched = WatchedOutputs(self.model, self.layers)

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        return {} if self._watched is None else self._watched.outputs

    def named(self, values: Sequence[Tensor]) -> Mapping[str, Tensor]:
        return dict(zip(self._parameters, values, strict=True))

    def start_task(self, task: int, data: Task, gram: Gram | None = None) -> None:
        # A Gram matrix makes nothing faster here: autograd wants the weights.
        self._task, self._data, device = task, data, self._hardware.device
        self._classes = data.labels.unique().to(device)
        self._labels = self._targets(data.labels.to(device))
        # Stored with the channels last, so that batches are too.
        inputs = data.inputs.permute(0, 2, 3, 1).contiguous() if self._images else data.inputs
        self._inputs = inputs.to(device)

    def forward(self, x: Tensor) -> Tensor:
        self._batch = x.detach().requires_grad_()
        self._outputs = self._run(self._batch)
        return self._outputs.detach()

    def predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self._run(x)

    def backward(self, grad: Tensor) -> None:
        own = torch.autograd.grad(
            self._outputs, list(self._parameters.values()), grad, retain_graph=True, materialize_grads=True
        )
        torch._foreach_copy_(self._grads, own)

    def input_gradient(self, grad: Tensor) -> Tensor:
        (own,) = torch.autograd.grad(self._outputs, self._batch, grad, retain_graph=True, materialize_grads=True)
        return own

    def compute_gradients(self, rows: Tensor, step: int) -> Steps:
        made = self._gradients(rows.to(self._hardware.device), step)
        return Steps.none() if made is None else self._counted(rows, [made])

    def train_steps(self, order: Tensor, batch_size: int, first_step: int, update: Update) -> Steps:
        """As `Net` says; right answers are counted for all steps at once, since each call to torch has its price."""
        made: list[Answers] = []
        batches = order.to(self._hardware.device).split(batch_size)
        for step, rows in enumerate(batches, first_step):
            answers = self._gradients(rows, step)
            if answers is None:
                break
            made.append(answers)
            update(self)
        if not made:
            return Steps.none()
        return replace(self._counted(order, made), diverged=len(made) < len(batches))

    def accuracy(self, inputs: Tensor, labels: Tensor, *, chunk: int = 500) -> float:
        """Share of right answers in evaluation mode, among the outputs that the softmax of training is over."""
        self.model.eval()
        device = self._hardware.device
        pairs = zip(inputs.split(chunk), self._targets(labels.to(device)).split(chunk), strict=True)
        with torch.no_grad():
            right = [self._seen(self._run(x.to(device))).argmax(1) == y for x, y in pairs]
        self.model.train()
        return torch.cat(right).double().mean().item()

    def state(self) -> dict[str, Tensor]:
        kept = self.model.state_dict()
        return {name: value.to("cpu", copy=True) for name, value in kept.items() if name not in self._parameters}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, value in self.model.state_dict().items():
            if name not in self._parameters:
                value.copy_(state[name])

    def _gradients(self, rows: Tensor, step: int) -> Answers | None:
        """Put the gradients of a batch into `parts`; None where its outputs are not finite."""
        if self._buffers:
            torch._foreach_copy_(self._before, self._buffers)
        with self._random_state(step):
            outputs = self._seen(self._run(self._images_of(rows, step)))
        # A sum is five times as fast, and finite only if all of them are.
        if not math.isfinite(outputs.sum().item()) and not outputs.isfinite().all():
            if self._buffers:  # statistics of a batch that is not trained on
                torch._foreach_copy_(self._buffers, self._before)
            return None
        loss = F.cross_entropy(outputs, self._labels.index_select(0, rows))
        own = torch.autograd.grad(loss, self._trained, materialize_grads=True)
        torch._foreach_copy_(self._grads, own)
        return outputs.detach(), loss.detach()

    def _random_state(self, step: int) -> AbstractContextManager[object]:
        """Random state for dropout and the like."""
        if not self._draws:
            return nullcontext()
        return seeded(self._seed, "forward", self._task, step, device=self._hardware.device)

    def _counted(self, order: Tensor, made: Sequence[Answers]) -> Steps:
        """What some steps through an order gave."""
        outputs, losses = zip(*made, strict=True)
        answers = torch.cat(outputs).argmax(1)
        right = answers == self._labels[order[: len(answers)].to(answers.device)]
        step = torch.repeat_interleave(torch.tensor([len(batch) for batch in outputs]))
        correct = torch.zeros(len(made), dtype=torch.int64).index_add_(0, step, right.long().cpu())
        return Steps(correct, torch.stack(losses).double().cpu())

    def _run(self, x: Tensor) -> Tensor:
        with self._hardware.autocast(self._precision):
            outputs = self._forward(x)
        return outputs.float() if outputs.dtype == torch.bfloat16 else outputs

    def _seen(self, outputs: Tensor) -> Tensor:
        return outputs[:, self._classes] if self._only_seen else outputs

    def _targets(self, labels: Tensor) -> Tensor:
        return torch.searchsorted(self._classes, labels) if self._only_seen else labels

    def _images_of(self, rows: Tensor, step: int) -> Tensor:
        x = self._inputs.index_select(0, rows)
        x = self._data.floats(x.permute(0, 3, 1, 2) if self._images else x)
        if not self._augmented:
            return x
        # After scaling, which standardises: what rotation brings in from beyond the edge is the mean, not black.
        return augment(x, generator(self._seed, "augment", self._task, step))


def weights_of(model: nn.Module) -> list[nn.Parameter]:
    """What decay and rules act on: weights and biases, but those of norms and what is frozen.

    Fresh scales of a norm are all 1: to add a little of them in every step would not perturb but enlarge them.
    """
    norms = {id(own) for module in model.modules() if isinstance(module, NORMS) for own in module.parameters()}
    return [weight for weight in split_parameters(model)[0] if weight.requires_grad and id(weight) not in norms]
