import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adalin.methods._replace import fan_in, mean_size, replace_units, replaceable, uniform
from adalin.methods._rule import Need, Now, Rule, State
from adalin.structure import Network, Units

UTILITIES = ("contribution", "adaptable")


@dataclass(frozen=True)
class ContinualBackprop(Rule):
    """Continual backprop (Dohare et al. 2024): after every step, a few units of the least use are replaced.

    After the optimiser's step, in each layer, with h of the step's batch and all weights of before any replacement:

        age_i <- age_i + 1
        f_i <- decay f_i + (1 - decay) mean h_i
        u_i <- decay u_i + (1 - decay) y_i,   y_i = mean|outgoing_i| mean|h_i|

    With `utility="adaptable"`, y_i = mean|outgoing_i| mean|h_i - f_i / (1 - decay^age_i)| / mean|incoming_i|. Of the
    units older than `maturity`, rate times their number is added to what is due; as many whole units as are due, those
    with the least u_i / (1 - decay^age_i), the first of equals, are replaced: weights that feed them from U(-b, b),
    b = sqrt(6 / inputs); bias, age, u and f 0; what reads them 0; the optimiser's moments 0.

    `correct` adds to the biases behind a layer what the replaced units gave them on average, as the paper says. The
    authors' code has this too, but adds 0, since it sets f to 0 before: without `correct` it is as they run it.
    """

    name = "cbp"
    title = "Continual backprop"
    summary = "continual backprop: replaces a few units of the least use after every step"
    paper = "Dohare et al. 2024"
    changes = frozenset({"units"})

    rate: float = 1e-4
    """Share of the mature units that are replaced per step."""
    maturity: int = 100
    """Number of steps that a new unit is left alone."""
    decay_rate: float = 0.99
    """Share of the running means that stays in each step."""
    utility: str = "contribution"
    """Measure of a unit's use: "contribution" or "adaptable"."""
    correct: bool = False
    """Whether biases take over what replaced units gave on average."""

    def __post_init__(self) -> None:
        self._check("rate", 0 <= self.rate <= 1, "a number from 0 to 1")
        self._check("maturity", self.maturity >= 0, "a whole number >= 0")
        self._check("decay_rate", 0 <= self.decay_rate < 1, "a number from 0 to below 1")
        self._check("utility", self.utility in UTILITIES, f"one of {', '.join(UTILITIES)}")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"units", "outputs", "moments"})

    def init(self, net: Network) -> State:
        state: State = {}
        for layer in replaceable(net):
            like = net.params[layer.incoming[0].parameter]
            copies = layer.outgoing[0].copies
            state[f"utility.{layer.name}"] = like.new_zeros(layer.width)
            state[f"feature.{layer.name}"] = like.new_zeros(copies, layer.width)
            state[f"age.{layer.name}"] = like.new_zeros(layer.width, dtype=torch.float64)
            state[f"due.{layer.name}"] = torch.zeros((), dtype=torch.float64)
        return state

    def after_step(self, net: Network, now: Now) -> None:
        outputs, params = net.outputs, net.params
        # The utilities of all layers are those of the weights before any unit is replaced.
        chosen = [(layer, self._test(layer, outputs[layer.name], params, now.memory)) for layer in replaceable(net)]
        for layer, units in chosen:
            if units is not None:
                self._replace(net, layer, units, now)

    def _test(self, layer: Units, outputs: Tensor, params: Mapping[str, Tensor], memory: State) -> Tensor | None:
        """Bring the utilities up to date; which units are to be replaced, if any."""
        name = layer.name
        utility, age, due = memory[f"utility.{name}"], memory[f"age.{name}"], memory[f"due.{name}"]
        age += 1
        if self.utility == "adaptable" or self.correct:  # nobody else looks at it
            feature = memory[f"feature.{name}"].lerp_(outputs.mean(0), 1 - self.decay_rate)
        if self.utility == "adaptable":
            outputs = outputs - feature / (1 - self.decay_rate**age).to(utility.dtype)
        gives = outputs.abs().mean((0, 1)) * mean_size(layer, layer.outgoing, params)
        if self.utility == "adaptable":
            gives = gives / mean_size(layer, layer.incoming, params)
        utility.lerp_(gives, 1 - self.decay_rate)

        mature = age > self.maturity
        due += self.rate * int(mature.sum())  # in float64: a tensor of whole numbers would make it float32
        count = int(due)
        if count == 0:
            return None
        due -= count
        correction = (1 - self.decay_rate**age).to(utility.dtype)
        order = torch.where(mature, utility / correction, math.inf).argsort(stable=True)
        chosen = torch.zeros_like(mature)
        chosen[order[:count]] = True
        return chosen & mature

    def _replace(self, net: Network, layer: Units, units: Tensor, now: Now) -> None:
        memory = now.memory
        utility, feature, age = (memory[f"{what}.{layer.name}"] for what in ("utility", "feature", "age"))
        if self.correct:
            correction = (1 - self.decay_rate ** age[units]).to(feature.dtype)
            self._add_to_biases(net, layer, units, feature[:, units] / correction)
        generator = now.generator(self, layer.name)
        weights = uniform(lambda edge, own: math.sqrt(6 / fan_in(edge, own)), generator)
        replace_units(net, layer, units, weights, generator)
        for value in (utility, age):
            value[units] = 0
        feature[:, units] = 0

    def _add_to_biases(self, net: Network, layer: Units, units: Tensor, gave: Tensor) -> None:
        """What the units gave on average, to the biases of those that read them: gave is (copies, units)."""
        params = net.params
        for edge in layer.outgoing:
            bias = params.get(f"{edge.parameter.removesuffix('weight')}bias")
            if bias is None:
                continue
            read = edge.of(params[edge.parameter], layer.width)[units]  # (units, copies, repeat, outputs, ...)
            summed = read.sum(2).flatten(3).sum(3) if read.dim() > 4 else read.sum(2)
            more = torch.einsum("uco,cu->o", summed, gave)
            bias += more
            for mirror in net.mirrors:
                mirror.params[f"{edge.parameter.removesuffix('weight')}bias"].add_(more)
