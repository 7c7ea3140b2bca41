"""What the learner needs of a network: outputs, gradients and training steps, whoever computes them."""

import ctypes
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from adalin.engine._gram import Gram
from adalin.models import hidden_layers
from adalin.native import Perturbation
from adalin.optim import Optimizer
from adalin.streams import Task
from adalin.structure import Network, Units


@dataclass(frozen=True, eq=False)
class Steps:
    """What training steps gave, up to the first one whose outputs are not finite, which is not made."""

    correct: Tensor
    """Right answers in each batch before its update, int64 (steps,)."""
    losses: Tensor
    """Mean cross-entropy of each batch before its update, float64 (steps,)."""
    diverged: bool = False
    """Whether the next step's outputs were not finite."""

    def __len__(self) -> int:
        return len(self.correct)

    @classmethod
    def none(cls) -> "Steps":
        """No step: the first one's outputs were not finite."""
        return cls(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64), diverged=True)

    @classmethod
    def joined(cls, parts: "Sequence[Steps]") -> "Steps":
        """Steps that were made one part after the other."""
        correct, losses = ([getattr(part, name) for part in parts] for name in ("correct", "losses"))
        return cls(torch.cat(correct), torch.cat(losses), parts[-1].diverged)


@dataclass(frozen=True, eq=False)
class Update:
    """What follows the gradients in a step: weights are scaled, all is moved by an optimiser, weights are perturbed."""

    optimizer: Optimizer
    """Optimiser that moves the parameters."""
    state: Mapping[str, Tensor]
    """Memory of the optimiser, which it changes in place."""
    lr: float
    """Learning rate of these steps."""
    shrink: float = 1.0
    """Number that all weights but alphas and norms are multiplied with before the optimiser's step, as L2 does it."""
    clip: float | None = None
    """Largest norm of the gradient; a larger one is scaled down to it."""
    perturbation: Perturbation | None = None
    """Change of a native network's weights after everything else."""
    _step: list[Callable[[], None]] = field(default_factory=list, init=False, repr=False)
    """The optimiser's step, once it is prepared."""

    def __call__(self, net: "Net") -> None:
        """Do it, with gradients in place."""
        if self.clip is not None:
            clip_gradients([part.grad for part in net.parts], self.clip)
        self.move(net)

    def move(self, net: "Net") -> None:
        """Do it with gradients that are not to be clipped, or have been."""
        if self.shrink != 1.0:
            for part in net.parts:
                if part.is_weight:
                    part.value.mul_(self.shrink)
        if not self._step:
            self._step.append(self.optimizer.prepare(self.state, net.parts, self.lr))
        self._step[0]()
        if self.perturbation is not None:
            self.perturbation()


class Net(Network):
    """A network, and what computes it: the whole interface between training and the engines."""

    engine: ClassVar[str]
    """Name of what computes it: "native" or "module"."""

    @property
    def kernels(self) -> ctypes.CDLL | None:
        """The library that computes it, if one does."""
        return None

    @cached_property
    def layers(self) -> Sequence[Units]:
        return hidden_layers(self.model)

    @cached_property
    def params(self) -> Mapping[str, Tensor]:
        return super().params

    @cached_property
    def grads(self) -> Mapping[str, Tensor]:
        return super().grads

    def watch(self) -> None:
        """Keep, from now on, what hidden layers give for the batch of `compute_gradients`, as `outputs`."""

    @abstractmethod
    def start_task(self, task: int, data: Task, gram: Gram | None = None) -> None:
        """Take the images and labels that the following steps find by their index.

        With a Gram matrix of the images a network may train its first layer by its outputs until `end_task`; the
        learner gives one only where every update is the gradient times a number, or scales all weights.
        """

    def end_task(self) -> None:
        """Bring the parameters up to date, if a Gram matrix has stood for some of them."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Outputs for a batch; `backward` may follow."""

    @abstractmethod
    def predict(self, x: Tensor) -> Tensor:
        """Outputs for a batch, without what gradients need; those of the last `forward` are no longer to be had."""

    @abstractmethod
    def backward(self, grad: Tensor) -> None:
        """Put the gradients into `parts`, given that for the outputs of the last `forward`."""

    @abstractmethod
    def input_gradient(self, grad: Tensor) -> Tensor:
        """The gradient for the inputs of the last `forward`, given that for its outputs; `parts` stay as they are."""

    def gradients_from(self, grad: Tensor) -> Mapping[str, Tensor]:
        """All gradients by the parameters' names, given that for the outputs of the last `forward`."""
        self.backward(grad)
        return self.grads

    @abstractmethod
    def compute_gradients(self, rows: Tensor, step: int) -> Steps:
        """Put the gradients of some images' mean cross-entropy into `parts`; gives one step, or none if diverged."""

    def train_steps(self, order: Tensor, batch_size: int, first_step: int, update: "Update") -> Steps:
        """One step for each batch of the images in this order; the last batch may be smaller.

        This is what it means; a native network does it in one call where `update` allows.
        """
        made: list[Steps] = []
        for step, rows in enumerate(order.split(batch_size), first_step):
            made.append(self.compute_gradients(rows, step))
            if made[-1].diverged:
                break
            update(self)
        return Steps.joined(made)

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Copies, on the CPU, of all that `restore` needs beside the parameters: buffers, what `parts` do not show."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, after the parameters have been written; inside a task, after `start_task`."""


def clip_gradients(grads: list[Tensor], norm: float) -> None:
    """Scale gradients down to a norm, as torch.nn.utils.clip_grad_norm_ does it."""
    total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (norm / (total + 1e-6)).clamp(max=1.0))
