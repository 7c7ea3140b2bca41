"""Remedies as their papers' and authors' loops have them, on an MLP of torch's layers, one unit after the other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from adalin._seeds import generator
from adalin.methods import ContinualBackprop, L2Init, ReDo, Rule
from adalin.nn import PerNeuron


@dataclass
class Hidden:
    """A hidden layer: what feeds its activation, and the linear layer that reads it."""

    name: str
    fed: nn.Linear
    norm: nn.Module | None
    activation: nn.Module
    reads: nn.Linear
    given: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def width(self) -> int:
        return self.fed.out_features

    def columns(self, unit: int) -> list[int]:
        """Those of the next layer that read a unit: two of CReLU's."""
        return list(range(unit, self.reads.in_features, self.width))


class Loop:
    """The remedies of a plain loop over a network: call `gradients` before the optimiser's step and `after` it."""

    def __init__(self, model: nn.Module, rules: Sequence[Rule], seed: int) -> None:
        self.model, self.rules, self.seed = model, rules, seed
        self.steps = 0
        self.replaced = 0
        linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
        self.hidden = []
        names = {module: name for name, module in model.named_modules()}
        for layer, after in pairwise(linears):
            between = list(model.modules())
            between = between[between.index(layer) + 1 : between.index(after)]
            norm = next((own for own in between if isinstance(own, nn.LayerNorm | nn.RMSNorm)), None)
            activation = [own for own in between if not isinstance(own, nn.Sequential)][-1]
            self.hidden.append(Hidden(names[activation], layer, norm, activation, after))
        self.first = {name: value.detach().clone() for name, value in model.named_parameters()}
        self.memory: dict[Any, Any] = {}
        for layer in self.hidden:
            layer.activation.register_forward_hook(
                lambda module, args, output, own=layer: setattr(own, "given", output.detach())
            )

    @torch.no_grad()
    def gradients(self) -> None:
        """With gradients in place."""
        for rule in self.rules:
            if isinstance(rule, L2Init):
                for name, own in self.model.named_parameters():
                    module = self.model.get_submodule(name.rpartition(".")[0])
                    if isinstance(module, nn.Linear):
                        own.grad += rule.strength * (own - self.first[name])

    @torch.no_grad()
    def after(self, optimizer: torch.optim.Optimizer, task: int, step: int) -> None:
        """After the optimiser's step."""
        self.steps += 1
        for rule in self.rules:
            if isinstance(rule, ReDo) and self.steps % rule.every == 0:
                self.redo(rule, optimizer, task, step)
            if isinstance(rule, ContinualBackprop):
                self.continual_backprop(rule, optimizer, task, step)

    def redo(self, rule: ReDo, optimizer: torch.optim.Optimizer, task: int, step: int) -> None:
        dormant = []
        for layer in self.hidden:
            mean = [layer.given[:, layer_columns(layer, unit)].abs().mean() for unit in range(layer.width)]
            average = sum(mean) / len(mean)
            if rule.variant == "kumar2023":
                dormant.append([unit for unit in range(layer.width) if mean[unit] / average <= rule.tau])
            elif rule.variant == "kleinredo" and rule.tau == 0:
                dormant.append([unit for unit in range(layer.width) if mean[unit] / (average + 1e-9) <= 1e-8])
            else:
                dormant.append([unit for unit in range(layer.width) if mean[unit] / (average + 1e-9) <= rule.tau])
        silent: list[tuple[Hidden, list[int]]] = []
        for layer, units in zip(self.hidden, dormant, strict=True):
            inputs = layer.fed.in_features
            draws = generator(self.seed, "rule", "redo", task, step, layer.name)
            if not units:
                continue
            if rule.variant == "sokar2023":
                bound = math.sqrt(6 / (inputs + layer.width))
                weights, biases = uniform(draws, bound, len(units), inputs), torch.zeros(len(units))
            elif rule.variant == "kleinredo":
                weights = uniform(draws, math.sqrt(2) * math.sqrt(3 / inputs), len(units), inputs)
                biases = uniform(draws, 1 / math.sqrt(inputs), len(units))
            else:
                name = next(name for name, module in self.model.named_modules() if module is layer.fed)
                weights = self.first[f"{name}.weight"][units]
                biases = self.first[f"{name}.bias"][units]
            self.replace(layer, units, weights, biases, draws, optimizer, keep=rule.variant == "kumar2023")
            if rule.variant == "sokar2023":
                silent.append((layer, units))
            if rule.variant == "kleinredo":
                touched = [layer.fed.weight, layer.fed.bias, layer.reads.weight]
                touched += [] if layer.norm is None else list(layer.norm.parameters())
                touched += list(layer.activation.parameters())
                for own in touched:
                    if "step" in optimizer.state[own]:
                        optimizer.state[own]["step"].zero_()
        for layer, units in silent:  # all that feeds is drawn before anything that reads becomes 0
            for unit in units:
                layer.reads.weight[:, layer.columns(unit)] = 0

    def continual_backprop(
        self, rule: ContinualBackprop, optimizer: torch.optim.Optimizer, task: int, step: int
    ) -> None:
        chosen = []
        for layer in self.hidden:
            memory = self.memory.setdefault(
                layer.name,
                {
                    "utility": [0.0] * layer.width,
                    "feature": [[0.0] * len(layer.columns(0)) for _ in range(layer.width)],
                    "age": [0] * layer.width,
                    "due": 0.0,
                },
            )
            eta = rule.decay_rate
            for unit in range(layer.width):
                memory["age"][unit] += 1
                columns = layer.columns(unit)
                out = layer.reads.weight[:, columns].abs().mean().item()
                into = layer.fed.weight[unit].abs().mean().item()
                given = [layer.given[:, column] for column in columns]
                for copy, values in enumerate(given):
                    memory["feature"][unit][copy] = (
                        eta * memory["feature"][unit][copy] + (1 - eta) * values.mean().item()
                    )
                if rule.utility == "adaptable":
                    corrected = [value / (1 - eta ** memory["age"][unit]) for value in memory["feature"][unit]]
                    given = [values - mean for values, mean in zip(given, corrected, strict=True)]
                gives = torch.stack(given).abs().mean().item() * out
                if rule.utility == "adaptable":
                    gives /= into
                memory["utility"][unit] = eta * memory["utility"][unit] + (1 - eta) * gives
            mature = [unit for unit in range(layer.width) if memory["age"][unit] > rule.maturity]
            memory["due"] += rule.rate * len(mature)
            count = int(memory["due"])
            memory["due"] -= count
            mature.sort(key=lambda unit: memory["utility"][unit] / (1 - eta ** memory["age"][unit]))
            chosen.append(sorted(mature[:count]))
        for layer, units in zip(self.hidden, chosen, strict=True):
            if not units:
                continue
            memory, eta = self.memory[layer.name], rule.decay_rate
            if rule.correct:
                for unit in units:
                    for copy, column in enumerate(layer.columns(unit)):
                        mean = memory["feature"][unit][copy] / (1 - eta ** memory["age"][unit])
                        layer.reads.bias += layer.reads.weight[:, column] * mean
            draws = generator(self.seed, "rule", "cbp", task, step, layer.name)
            inputs = layer.fed.in_features
            weights = uniform(draws, math.sqrt(2) * math.sqrt(3 / inputs), len(units), inputs)
            self.replace(layer, units, weights, torch.zeros(len(units)), draws, optimizer)
            for unit in units:
                memory["utility"][unit], memory["age"][unit] = 0.0, 0
                memory["feature"][unit] = [0.0] * len(layer.columns(unit))

    def replace(
        self,
        layer: Hidden,
        units: Sequence[int],
        weights: Tensor,
        biases: Tensor,
        draws: torch.Generator,
        optimizer: torch.optim.Optimizer,
        *,
        keep: bool = False,
    ) -> None:
        self.replaced += len(units)
        touched: list[tuple[Tensor, Any]] = []
        fresh = None
        if isinstance(layer.activation, PerNeuron):
            fresh = torch.empty(layer.width, dtype=torch.float64).uniform_(0, 1, generator=draws)
        for number, unit in enumerate(units):
            layer.fed.weight[unit] = weights[number]
            layer.fed.bias[unit] = biases[number]
            touched += [(layer.fed.weight, unit), (layer.fed.bias, unit)]
            if layer.norm is not None:
                layer.norm.weight[unit] = 1
                touched.append((layer.norm.weight, unit))
                if getattr(layer.norm, "bias", None) is not None:
                    layer.norm.bias[unit] = 0
                    touched.append((layer.norm.bias, unit))
            if fresh is not None:
                layer.activation.alpha[unit] = fresh[number]
                touched.append((layer.activation.alpha, unit))
            for column in layer.columns(unit):
                layer.reads.weight[:, column] = 0
                touched.append((layer.reads.weight, (slice(None), column)))
        if keep:
            return
        for own, place in touched:
            for moment in ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg"):
                if optimizer.state[own].get(moment) is not None:
                    optimizer.state[own][moment][place] = 0


def layer_columns(layer: Hidden, unit: int) -> list[int]:
    return list(range(unit, layer.given.shape[1], layer.width))


def uniform(draws: torch.Generator, bound: float, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float64).uniform_(-bound, bound, generator=draws)
