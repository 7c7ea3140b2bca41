"""Weights of newly initialised networks, for rules that ask for them in every step."""

import ctypes
from collections.abc import Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from adalin._seeds import derive, seeded
from adalin.engine._module_net import weights_of
from adalin.engine._place import Place
from adalin.models import INITS
from adalin.native import FreshNumbers, Perturbation, Region, aligned_zeros
from adalin.structure import Network


class FreshWeights:
    """Weights and biases of a network, as its initialiser draws them; linear layers and convolutions in a faster way.

    Torch's generator would take several times as long as the rest of an MLP's step. Numbers of torch's default
    distribution, U(-1/sqrt(inputs), 1/sqrt(inputs)), have 16 random bits here, and the layout of native networks.
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
        self._regions: list[Region] = []
        self._numbers: FreshNumbers | None = None
        self._is_flat = False
        bounds = _bounds(self._template)
        if self._weights and init == "default" and bounds.keys() == {id(weight) for weight in self._weights}:
            self._lay_out(bounds)

    def draw(self, hook: str, task: int, step: int) -> Sequence[Tensor]:
        """One tensor for each of the network's `weights`; overwritten by the next call."""
        with torch.no_grad():
            if self._numbers is None:
                with seeded(self._seed, "noise", hook, task, step):
                    self._initialise(self._template)
                drawn = [weight.detach() for weight in self._weights]
            else:
                self._numbers.draw(self.key(hook, task), step)
                drawn = self._drawn
            if drawn is not self._places:
                for place, new in zip(self._places, drawn, strict=True):
                    place.copy_(new)
        return self._given

    def key(self, hook: str, task: int) -> int:
        """Name of the numbers for all steps of a task."""
        return derive(self._seed, "noise", hook, task)

    def perturbation(self, net: Network, shrink: float, noise: float, kernels: ctypes.CDLL) -> Perturbation | None:
        """What perturbs the weights of a native network with the same numbers; None where they have no such layout."""
        if not self._is_flat:
            return None
        return Perturbation(net.weights[0].value, self._regions, shrink, noise, kernels)

    def _lay_out(self, bounds: Mapping[int, float]) -> None:
        """Give each weight a place in one flat tensor, as native networks do; it may be such a network's own."""
        ends, places = 0, list[Place]()
        for weight in self._weights:
            places.append(Place(0, ends, weight.shape))
            ends = places[-1].end
            self._regions.append(Region(places[-1].offset, places[-1].rows, places[-1].columns, bounds[id(weight)]))
        flat = aligned_zeros(ends, self._given[0].dtype)
        self._drawn = [place.of([flat]) for place in places]
        alike = (_layout(own) == _layout(place) for own, place in zip(self._drawn, self._places, strict=True))
        self._is_flat = len(self._given) == 1 and self._given[0].shape == flat.shape and all(alike)
        if self._is_flat:
            flat, self._drawn = self._given[0], self._places
        self._numbers = FreshNumbers(flat, self._regions)


def _bounds(model: nn.Module) -> dict[int, float]:
    """Of the uniform distributions of linear layers' and convolutions' weights and biases, by the weights' ids."""
    layers = [module for module in model.modules() if type(module) in (nn.Linear, nn.Conv2d)]
    inputs = {id(own): layer.weight[0].numel() for layer in layers for own in layer.parameters()}  # type: ignore[index]
    return {weight: count**-0.5 for weight, count in inputs.items()}


def _layout(view: Tensor) -> tuple[object, ...]:
    return view.shape, view.stride(), view.storage_offset()
