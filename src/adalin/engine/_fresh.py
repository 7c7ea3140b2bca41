"""Weights of newly initialised networks, for rules that ask for them in every step."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from adalin._seeds import derive, seeded
from adalin.engine._module_net import weights_of
from adalin.models import INITS
from adalin.native import padded
from adalin.structure import Network


class FreshWeights:
    """Weights and biases of a network, as its initialiser draws them; those of linear layers alone in a faster way.

    Torch's generator would take several times as long as the rest of an MLP's step. For linear layers in torch's
    default distribution, U(-1/sqrt(inputs), 1/sqrt(inputs)), this one draws 16 bits per number, the last of which
    becomes 1: odd numbers have the mean 0. They are drawn with the padding that native networks have, where one product
    makes weights of them.
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
        if self._is_linear:
            self._lay_out([bounds[id(weight)] for weight in self._weights])

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

    def _lay_out(self, bounds: Sequence[float]) -> None:
        """Views of one flat tensor, with the weights as native networks keep them; it may be such a network's own."""
        lengths = [padded(weight.shape[0]) * weight[0].numel() for weight in self._weights]
        self._flat = torch.zeros(sum(lengths), dtype=self._given[0].dtype)
        self._factors = torch.zeros_like(self._flat)
        self._drawn = _views(self._flat, self._weights)
        for view, bound in zip(_views(self._factors, self._weights), bounds, strict=True):
            view.fill_(bound / 2**15)
        alike = (_layout(own) == _layout(place) for own, place in zip(self._drawn, self._places, strict=True))
        if len(self._given) == 1 and self._given[0].shape == self._flat.shape and all(alike):
            self._given, self._places = [self._flat], self._drawn

    def _draw_uniform(self, *purpose: str | int) -> None:
        count = self._flat.numel()
        words = np.random.SFC64(derive(self._seed, "noise", *purpose)).random_raw(count // 4)
        words |= np.uint64(0x0001_0001_0001_0001)
        self._flat.copy_(torch.from_numpy(words.view(np.int16))).mul_(self._factors)
        if self._places is not self._drawn:
            for place, own in zip(self._places, self._drawn, strict=True):
                place.copy_(own)


def _views(flat: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """Weights in a flat tensor: (inputs, outputs with padding), seen as torch has them; biases are one such row."""
    views, start = [], 0
    for weight in weights:
        rows, stride = weight[0].numel(), padded(weight.shape[0])
        matrix = flat[start : start + rows * stride].view(rows, stride)[:, : weight.shape[0]]
        views.append(matrix.T if weight.dim() == 2 else matrix[0])
        start += rows * stride
    return views


def _layout(view: Tensor) -> tuple[object, ...]:
    return view.shape, view.stride(), view.storage_offset()
