"""Weights of newly initialised networks, for rules that ask for them in every step."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from adalin._seeds import derive, seeded
from adalin.engine._stack import NetworkSpec, rule_weights
from adalin.models import INITS


class FreshWeights:
    """Weights and biases of a network, as its initialiser draws them."""

    def __init__(self, spec: NetworkSpec) -> None:
        self._seed, self._initialise = spec.seed, INITS.get(spec.init)
        self._template = deepcopy(spec.model)
        self._weights = rule_weights(self._template)

    def __call__(self, *purpose: str | int) -> list[Tensor]:
        """In the order of the model's parameters; overwritten by the next call."""
        with seeded(self._seed, "noise", *purpose):
            self._initialise(self._template)
        return [weight.detach() for weight in self._weights]

    def write(self, places: Sequence[Tensor], *purpose: str | int) -> None:
        """Into tensors of as many numbers, matrices with the inputs first."""
        for place, weight in zip(places, self(*purpose), strict=True):
            place.copy_((weight.T if weight.dim() == 2 else weight).reshape(place.shape))


class FreshUniform:
    """Weights and biases of linear layers in torch's default distribution, U(-1/sqrt(inputs), 1/sqrt(inputs)).

    Torch's generator would take several times as long as the rest of a step. This one draws 16 bits per number, the
    last of which becomes 1: odd numbers have the mean 0.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        self._seed = spec.seed
        linears = [module for module in spec.model.modules() if isinstance(module, nn.Linear)]
        own = [(weight.numel(), linear.in_features**-0.5) for linear in linears for weight in linear.parameters()]
        self._sizes, self._bounds = zip(*own, strict=True)

    def write(self, places: Sequence[Tensor], *purpose: str | int) -> None:
        """Into tensors of as many numbers."""
        total = sum(self._sizes)
        words = np.random.SFC64(derive(self._seed, "noise", *purpose)).random_raw(-(-total // 4))
        words |= np.uint64(0x0001_0001_0001_0001)
        numbers = torch.from_numpy(words.view(np.int16))[:total].split(self._sizes)
        for place, own, bound in zip(places, numbers, self._bounds, strict=True):
            place.copy_(own.view(place.shape)).mul_(bound / 2**15)  # torch.mul would need memory between the two
