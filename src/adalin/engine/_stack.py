"""What the training loop needs of networks that are trained together."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from adalin.engine._gram import Gram
from adalin.engine._preset import PLAIN, Preset
from adalin.methods import Rule
from adalin.nn import split_parameters
from adalin.streams import Task


@dataclass(frozen=True, eq=False)
class NetworkSpec:
    """One network in a stack, and how it is trained."""

    model: nn.Module
    """The network, with its first weights."""
    seed: int
    """Seed of what its rules draw."""
    lr: float
    """Learning rate."""
    rules: tuple[Rule, ...] = ()
    """Rules of its method, in their order."""
    gram: Gram | None = None
    """Inputs for which the first layer is trained by its outputs; None if it is trained by its weights."""
    init: str = "default"
    """Name of its first weights, which rules may draw anew."""
    method: str = ""
    """Text of its method: a model's own text does not tell two bases of the same name apart."""
    clip: float | None = None
    """Largest norm of a gradient; larger ones are scaled down to it."""
    preset: Preset = PLAIN
    """Protocol of training beyond SGD."""
    precision: str = "float32"
    """Precision of matrix products: float32 or bfloat16."""

    @property
    def is_plain(self) -> bool:
        """Whether SGD and rules are all there is to it, as stacks of MLPs need."""
        return self.clip is None and self.preset.is_plain and self.precision == "float32"

    @property
    def recipe(self) -> tuple[str, str, float, str]:
        """Neighbours with the same recipe share every operation; recipes have an order."""
        return (self.method, repr(self.model), self.lr, repr(self.rules))


class Stack(ABC):
    """Networks with layers of the same shapes. What one of them computes does not depend on the others."""

    def __init__(self, specs: Sequence[NetworkSpec]) -> None:
        self.specs = tuple(specs)

    @abstractmethod
    def start_task(self, task: int, data: Sequence[Task], *, resumed: bool = False) -> None:
        """Take the data of a task, one `Task` per network; unless it is resumed, let the rules act."""

    @abstractmethod
    def train(self, order: Tensor, batch_size: int, first_step: int = 0) -> Tensor:
        """One SGD step per batch of the task's images, in this order (networks, images).

        Returns the accuracy of each batch before its update, (networks, steps), NaN where the outputs were not finite.
        """

    def end_task(self) -> None:  # noqa: B027
        """Whatever is to be done after the last step of a task, before metrics are computed."""

    @abstractmethod
    def model(self, index: int) -> nn.Module:
        """A network as it is now: the spec's own, with its weights up to date."""

    @abstractmethod
    def load(self, index: int, model: nn.Module) -> None:
        """Go on with the weights of another network in the place of one."""

    @abstractmethod
    def state(self, index: int) -> dict[str, Tensor]:
        """A copy of all that `restore` needs to go on from here."""

    @abstractmethod
    def restore(self, index: int, state: dict[str, Tensor]) -> None:
        """Go on with a network from a copy that `state` made."""


def accuracies(logits: Tensor, labels: Tensor) -> Tensor:
    """(..., batch, classes), (..., batch) -> the share of right answers, NaN where a logit is not finite."""
    right = (logits.argmax(-1) == labels).double().mean(-1)
    return right.masked_fill_(~logits.isfinite().flatten(-2).all(-1), torch.nan)


def rule_weights(model: nn.Module) -> list[nn.Parameter]:
    """What rules act on: weights and biases, but those of normalisation and what is frozen.

    Fresh scales are all 1: to add a little of them in every step would not perturb but enlarge them.
    """
    kinds = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
    norms = {id(weight) for module in model.modules() if isinstance(module, kinds) for weight in module.parameters()}
    return [weight for weight in split_parameters(model)[0] if weight.requires_grad and id(weight) not in norms]
