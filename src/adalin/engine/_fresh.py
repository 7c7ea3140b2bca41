"""Weights of newly initialised networks, for rules that ask for them in every step."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from adalin._seeds import derive, seeded
from adalin.engine._module_net import weights_of
from adalin.models import INITS
from adalin.structure import Network


class FreshWeights:
    """Weights and biases of a network, as its initialiser draws them; those of linear layers alone in a faster way.

    Torch's generator would take several times as long as the rest of an MLP's step. For linear layers in torch's
    default distribution, U(-1/sqrt(inputs), 1/sqrt(inputs)), this one draws 16 bits per number, the last of which
    becomes 1: odd numbers have the mean 0.
    """

    def __init__(self, net: Network, seed: int, init: str = "default") -> None:
        self._seed, self._initialise = seed, INITS.get(init)
        # With the layout of the network's parts, zero where these are no weights.
        places = [torch.zeros_like(part.value) for part in net.parts]
        named = net.named(places)
        self._given = [place for place, part in zip(places, net.parts, strict=True) if part.is_weight]
        self._template = deepcopy(net.model).cpu()
        own = {id(weight): name for name, weight in self._template.named_parameters()}
        self._weights = weights_of(self._template)
        self._places = [named[own[id(weight)]] for weight in self._weights]
        linears = [module for module in self._template.modules() if type(module) is nn.Linear]
        bounds = {id(weight): linear.in_features**-0.5 for linear in linears for weight in linear.parameters()}
        self._is_linear = init == "default" and bounds.keys() == {id(weight) for weight in self._weights}
        self._bounds = [bounds[id(weight)] for weight in self._weights] if self._is_linear else []

    def draw(self, *purpose: str | int) -> Sequence[Tensor]:
        """One tensor for each of the network's `weights`; overwritten by the next call."""
        with torch.no_grad():
            if self._is_linear:
                self._draw_uniform(*purpose)
            else:
                self._draw_any(*purpose)
        return self._given

    def _draw_any(self, *purpose: str | int) -> None:
        with seeded(self._seed, "noise", *purpose):
            self._initialise(self._template)
        for place, weight in zip(self._places, self._weights, strict=True):
            place.copy_(weight)

    def _draw_uniform(self, *purpose: str | int) -> None:
        sizes = [place.numel() for place in self._places]
        words = np.random.SFC64(derive(self._seed, "noise", *purpose)).random_raw(-(-sum(sizes) // 4))
        words |= np.uint64(0x0001_0001_0001_0001)
        numbers = torch.from_numpy(words.view(np.int16))[: sum(sizes)].split(sizes)
        for place, own, bound in zip(self._places, numbers, self._bounds, strict=True):
            inputs_first = place.T if place.dim() == 2 else place  # as native networks keep them
            inputs_first.copy_(own.view(inputs_first.shape)).mul_(bound / 2**15)
