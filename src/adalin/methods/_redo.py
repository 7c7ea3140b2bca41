import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.methods._replace import Draw, fan_in, replace_units, replaceable, silence, uniform
from adalin.methods._rule import Need, Now, Rule, State
from adalin.structure import Edge, Network, Units

VARIANTS = ("sokar2023", "kleinredo", "kumar2023")


@dataclass(frozen=True)
class ReDo(Rule):
    """ReDo (Sokar et al. 2023): every so many steps, units that give next to nothing are replaced.

        s_i = E|h_i| / mean_k E|h_k|,   unit i is replaced if s_i <= tau

    over the batch of the step. What reads a replaced unit becomes 0. The variants differ in what feeds it:

    - "sokar2023", the authors' code: weights from Xavier's uniform distribution, bias 0, the optimiser's moments 0.
    - "kleinredo", a well-known port: weights from U(-sqrt(6 / inputs), sqrt(6 / inputs)), as its code runs, bias from
      U(-1 / sqrt(inputs), 1 / sqrt(inputs)), moments 0, and Adam's number of steps 0 for every parameter it touches.
    - "kumar2023": the first weights and bias; the optimiser keeps its moments.
    """

    name = "redo"
    title = "ReDo"
    summary = "replaces units that give next to nothing, every so many steps"
    paper = "Sokar et al. 2023"
    changes = frozenset({"units"})

    every: int = 1000
    """Number of steps from one look at the units to the next."""
    tau: float = 0.025
    """Largest score of a unit that is replaced."""
    variant: str = "sokar2023"
    """Name of the variant."""

    def __post_init__(self) -> None:
        self._check("every", self.every >= 1, "a whole number >= 1")
        self._check("tau", 0 <= self.tau < math.inf, "a number >= 0")
        self._check("variant", self.variant in VARIANTS, f"one of {', '.join(VARIANTS)}")

    @property
    def needs(self) -> frozenset[Need]:
        if self.variant == "kumar2023":
            return frozenset({"units", "outputs", "initial"})
        if self.variant == "kleinredo":
            return frozenset({"units", "outputs", "moments", "steps"})
        return frozenset({"units", "outputs", "moments"})

    @property
    def period(self) -> int | None:
        return self.every

    def init(self, net: Network) -> State:
        layers = replaceable(net)
        if self.variant != "kumar2023":
            return {}
        edges = [edge for layer in layers for edge in (*layer.incoming, *layer.biases)]
        params = net.params
        return {f"initial.{edge.parameter}": params[edge.parameter].clone() for edge in edges}

    def after_step(self, net: Network, now: Now) -> None:
        # All layers are judged before any of them changes.
        outputs = net.outputs
        chosen = [(layer, self.dormant(outputs[layer.name])) for layer in replaceable(net)]
        for layer, units in chosen:
            if units.any():
                self._replace(net, layer, units, now)
        if self.variant == "sokar2023":  # there 0 has the last word between two new units
            for layer, units in chosen:
                silence(net, layer, units)

    def dormant(self, outputs: Tensor) -> Tensor:
        """Which units are to be replaced, of what they gave: (samples, copies, units)."""
        mean = outputs.abs().mean((0, 1))
        if self.variant == "kumar2023":  # a layer of zeros only is left alone there, as 0 / 0 is no number
            return mean / mean.mean() <= self.tau
        score = mean / (mean.mean() + 1e-9)
        if self.variant == "kleinredo" and self.tau == 0:
            return torch.isclose(score, torch.zeros_like(score))
        return score <= self.tau

    def _replace(self, net: Network, layer: Units, units: Tensor, now: Now) -> None:
        generator = now.generator(self, layer.name)
        if self.variant == "kumar2023":
            draw = _first_weights(layer, units, now)
            replace_units(net, layer, units, draw, generator, draw_bias=draw, forget=False)
        elif self.variant == "kleinredo":
            first = layer.incoming[0]
            inputs = fan_in(first, first.of(net.params[first.parameter], layer.width))
            weights = uniform(lambda edge, own: math.sqrt(6 / fan_in(edge, own)), generator)
            biases = uniform(lambda edge, own: 1 / math.sqrt(inputs), generator)
            replace_units(net, layer, units, weights, generator, draw_bias=biases, restart=True)
        else:
            weights = uniform(lambda edge, own: _xavier(layer, net.params[edge.parameter], own), generator)
            replace_units(net, layer, units, weights, generator)


def _xavier(layer: Units, weight: Tensor, units: Tensor) -> float:
    """Bound of Xavier's distribution: sqrt(6 / (inputs + outputs)), both times the places of a kernel."""
    inputs = units[0].numel()
    places = weight[0, 0].numel()
    return math.sqrt(6 / (inputs + weight.shape[0] * places))


def _first_weights(layer: Units, chosen: Tensor, now: Now) -> Draw:
    def draw(edge: Edge, units: Tensor) -> Tensor:
        return edge.of(now.memory[f"initial.{edge.parameter}"], layer.width)[chosen]

    return draw
