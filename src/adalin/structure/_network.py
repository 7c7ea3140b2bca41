"""What optimisers, methods and metrics may see of a network, whoever trains it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import torch
from torch import Tensor, nn

from adalin.structure._units import Units


@dataclass(frozen=True, eq=False)
class Part:
    """Some of a network's numbers as one tensor, for what treats each number alone: optimisers, decay, noise.

    A native network has two, all weights and all the rest, with zeros between them; another has one per parameter.
    """

    name: str
    """Name, for the tensors that an optimiser keeps beside it."""
    value: Tensor
    """The numbers themselves: what is written here, the network computes with."""
    grad: Tensor
    """Their gradient, 0 where `value` is padding."""
    is_weight: bool
    """Whether weight decay and rules concern it: weights and biases, but neither alphas nor what norms learn."""


class Network(ABC):
    """One network: an ordinary module whose parameters are up to date at any time."""

    model: nn.Module
    """The network. Its parameters are those that are trained, not copies."""
    parts: Sequence[Part]
    """All its trained numbers."""
    memory: Mapping[str, Tensor] = MappingProxyType({})
    """Memory of the optimiser about parameters, as `exp_avg.<parameter>`; written to, it is what the optimiser
    remembers."""
    replaceable: Sequence[Units] | None = None
    """Layers whose units can be replaced one by one, once somebody has looked."""
    mirrors: "Sequence[Network]" = ()
    """Copies that follow this network slowly, such as the targets of a critic."""

    @property
    def layers(self) -> Sequence[Units]:
        """The hidden layers, from the inputs on; raises ValueError for a network of which nobody knows them."""
        raise ValueError(f"the hidden layers of a {type(self.model).__name__} are not known")

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        """What hidden layers, by their names, gave for the batch of the step: (samples, copies, units).

        The places of an image are samples. Only for those who have asked for it: see `Rule.needs`.
        """
        return {}

    @property
    def weights(self) -> Sequence[Part]:
        """Those parts that decay and rules concern."""
        return [part for part in self.parts if part.is_weight]

    @property
    def params(self) -> Mapping[str, Tensor]:
        """Trained parameters by torch's names, in torch's layouts; one that layers share is there once."""
        return self.named([part.value for part in self.parts])

    @property
    def grads(self) -> Mapping[str, Tensor]:
        """Their gradients, likewise."""
        return self.named([part.grad for part in self.parts])

    @cached_property
    def weight_names(self) -> tuple[str, ...]:
        """Names of those parameters that decay and rules concern: neither alphas nor what norms learn."""
        marks = [torch.full_like(part.value, part.is_weight) for part in self.parts]
        return tuple(name for name, mark in self.named(marks).items() if mark.any())

    @abstractmethod
    def named(self, values: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Tensors with the layout of `parts` (gradients, moments, noise) as views, by the parameters' names."""
