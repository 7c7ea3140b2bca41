"""Stacked MLPs: weights of (runs, in, out), batched matrix products, the backward pass in closed form.

The gradient of the loss is scaled by minus the learning rate where it starts, so every update is an addition, which
`baddbmm_` makes part of the product. Each operation treats the runs one by one, so that a run gives the same bits alone
and in any stack.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.engine._fresh import FreshUniform, FreshWeights
from adalin.engine._kernels import Kernel, has_kernel, make_padded_kernel, padded, row_of_ones
from adalin.engine._products import library_for
from adalin.engine._stack import NetworkSpec, Stack, accuracies
from adalin.methods import overrides
from adalin.nn import PerNeuron
from adalin.streams import Task


@dataclass(frozen=True)
class Layout:
    """Where the numbers of a linear layer are in a padded (in, out) matrix.

    The inputs are `copies` blocks of units (two after CReLU and Fourier), each padded by itself.
    """

    copies: int
    units: int
    padded_units: int
    outputs: int
    padded_outputs: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.copies * self.padded_units, self.padded_outputs

    def inner(self, packed: Tensor) -> Tensor:
        """All but the padding, (copies, units, outputs)."""
        return packed.view(self.copies, self.padded_units, -1)[:, : self.units, : self.outputs]

    def unpack(self, packed: Tensor) -> Tensor:
        """(in, out)."""
        return self.inner(packed).reshape(-1, self.outputs)


class MLPStack(Stack):
    """Networks of the form Flatten, Linear, activation, ..., Linear."""

    def __init__(self, specs: Sequence[NetworkSpec]) -> None:
        super().__init__(specs)
        like, runs = _linears(specs[0].model)[0].weight.detach(), len(specs)
        self._layouts = list(_layouts(specs[0]))
        self._weights = [like.new_zeros(runs, *layout.shape) for layout in self._layouts]
        self._biases = [like.new_zeros(runs, 1, layout.padded_outputs) for layout in self._layouts]
        self._biases[-1][..., self._layouts[-1].outputs :] = -torch.inf  # of probability 0, and without a gradient
        self._lr = like.new_tensor([spec.lr for spec in specs])[:, None, None]
        # With Gram matrices the first weights are outputs, and these tell how they came about: the weights that they
        # started from, what these have been scaled by since, and the combination of inputs that was added to them.
        self._start: list[Tensor | None] = [None] * runs
        self._start_scale = torch.ones(runs, 1, 1, dtype=torch.float64)
        self._added = None if specs[0].gram is None else torch.zeros_like(self._weights[0])
        self._groups = list(self._make_groups())
        self._given: list[Tensor] = []
        for index, spec in enumerate(specs):
            self.load(index, spec.model)

    @staticmethod
    def fits(model: nn.Module) -> bool:
        """Whether a network has the form that can be stacked."""
        if type(model) is not nn.Sequential or not isinstance(model[0], nn.Flatten):
            return False
        linears, activations = list(model)[1::2], _activations(model)
        weights = [parameter for layer in linears for parameter in layer.parameters()]
        return (
            len(linears) == len(activations) + 1 > 1
            and all(type(layer) is nn.Linear and layer.bias is not None for layer in linears)
            and len(set(weights)) == len(weights)  # layers that share them would be trained apart
            and all(has_kernel(activation) for activation in activations)
            and all(parameter.requires_grad for parameter in model.parameters())
        )

    def start_task(self, task: int, data: Sequence[Task], *, resumed: bool = False) -> None:
        self._task = task
        tasks = {id(own): own for own in data}  # runs that differ in their method only share one
        floats = {key: own.floats(own.inputs) for key, own in tasks.items()}
        inputs = [floats[id(own)] for own in data]
        if [id(one) for one in inputs] != [id(one) for one in self._given]:
            self._given = inputs
            self._take_inputs()
        self._labels = torch.stack([own.labels for own in data])
        if not resumed:
            for group in self._groups:
                group.start_task(task)

    def _take_inputs(self) -> None:
        """Runs that differ in their method only have the same inputs: once in memory, and more often in the cache."""
        self._first_rows = torch.empty(len(self._given), 1, dtype=torch.long)
        first_rows: dict[int, int] = {}
        parts: list[Tensor] = []
        for index, (given, spec) in enumerate(zip(self._given, self.specs, strict=True)):
            if id(given) not in first_rows:
                first_rows[id(given)] = sum(map(len, parts))
                parts.append(given.flatten(1) if spec.gram is None else spec.gram.products)
            self._first_rows[index] = first_rows[id(given)]
        padding = self._weights[0].shape[1] - parts[0].shape[1]
        self._inputs = torch.cat([F.pad(part, (0, padding)) if padding else part for part in parts])

    def train(self, order: Tensor, batch_size: int, first_step: int = 0) -> Tensor:
        runs, images = order.shape
        whole = images - images % batch_size
        parts = [order[:, :whole].view(runs, -1, batch_size)] if whole else []
        if whole < images:
            parts.append(order[:, None, whole:])
        results = []
        for part in parts:
            results.append(self._train(part.transpose(0, 1).contiguous(), first_step))
            first_step += part.shape[1]
        return torch.cat(results, dim=1)

    @torch.inference_mode()
    def _train(self, order: Tensor, first_step: int) -> Tensor:
        """One step for each of order's (steps, runs, batch)."""
        steps, runs, batch = order.shape
        index = (order + self._first_rows).view(steps, runs * batch)
        places = (order + torch.arange(runs)[:, None] * self._weights[0].shape[1]).view(steps, runs * batch)
        labels = self._labels[torch.arange(runs)[:, None], order]
        targets = torch.eye(self._layouts[-1].padded_outputs, dtype=self._inputs.dtype)[labels]
        logits = torch.empty_like(targets)
        x = self._inputs.new_empty(runs, batch, self._inputs.shape[1])
        rows, scale = x.view(runs * batch, -1), self._lr / -batch
        each = zip(index, places, targets, logits, strict=True)
        for step, (chosen, own, target, out) in enumerate(each, first_step):
            torch.index_select(self._inputs, 0, chosen, out=rows)
            self._step(x, own, target, scale, out, step)
        return accuracies(logits[..., : self._layouts[-1].outputs], labels).T

    def _step(self, x: Tensor, own: Tensor, target: Tensor, scale: Tensor, logits: Tensor, step: int) -> None:
        """x: inputs, or their rows of Gram matrices; own: the rows of the batch in matrices of (runs * images)."""
        groups, weights, biases, last = self._groups, self._weights, self._biases, len(self._weights) - 1
        libraries = [library_for(x.shape[1] * weight[0].numel()) for weight in weights]
        inputs = [x]
        for layer in range(last):
            if layer == 0 and self._added is not None:
                z = weights[0].flatten(0, 1).index_select(0, own).view(*x.shape[:2], -1).add_(biases[0])
            else:
                with libraries[layer]:
                    z = torch.baddbmm(biases[layer], inputs[layer], weights[layer])
            inputs.append(_join([group.kernels[layer].forward(group.own(z)) for group in groups]))
        torch.baddbmm(biases[last], inputs[last], weights[last], out=logits)

        # The gradient of the mean cross-entropy for the logits, times minus the learning rate.
        grad = torch.softmax(logits, -1).sub_(target).mul_(scale)
        grads = [grad]
        for layer in reversed(range(last)):
            grad = torch.bmm(grad, weights[layer + 1].mT)
            grad = _join([group.kernels[layer].backward(group.own(grad)) for group in groups])
            grads.append(grad)

        for group in groups:
            group.before_update()
        ones = row_of_ones(len(x), x.shape[1], x.dtype)
        for weight, bias, seen, grad, library in zip(weights, biases, inputs, reversed(grads), libraries, strict=True):
            with library:
                weight.baddbmm_(seen.mT, grad)
            bias.baddbmm_(ones, grad)
        if self._added is not None:
            self._added.flatten(0, 1).index_add_(0, own, grads[-1].flatten(0, 1))
        for group in groups:
            group.after_update(self._task, step)

    def end_task(self) -> None:
        if self._added is not None:
            # Outputs and combinations have been rounded differently: start anew from the same weights.
            for index in range(len(self.specs)):
                self.load(index, self.model(index))

    def model(self, index: int) -> nn.Module:
        spec, views = self.specs[index], self._views(index)
        with torch.no_grad():
            for layer, (linear, layout) in enumerate(zip(_linears(spec.model), self._layouts, strict=True)):
                weight = layout.unpack(views[f"weight.{layer}"])
                if layer == 0 and spec.gram is not None:
                    start = self._start[index]
                    assert start is not None
                    added = layout.unpack(views["added"])
                    weight = spec.gram.weight(start * views["start_scale"].item(), added)
                linear.weight.copy_(weight.T)
                linear.bias.copy_(views[f"bias.{layer}"][0])
            for layer, activation in enumerate(_activations(spec.model)):
                if isinstance(activation, PerNeuron):
                    activation.alpha.copy_(views[f"alpha.{layer}"][0, : activation.alpha.numel()])
        return spec.model

    def load(self, index: int, model: nn.Module) -> None:
        gram, views = self.specs[index].gram, self._views(index)
        for layer, (linear, layout) in enumerate(zip(_linears(model), self._layouts, strict=True)):
            weight = linear.weight.detach().T
            if layer == 0 and gram is not None:
                self._start[index] = weight.clone(memory_format=torch.contiguous_format)  # as it is read from disk
                views["start_scale"].fill_(1)
                views["added"].zero_()
                weight = gram.outputs(weight)
            inner = layout.inner(views[f"weight.{layer}"])
            inner.copy_(weight.reshape(inner.shape))
            views[f"bias.{layer}"].copy_(linear.bias.detach())
        for layer, activation in enumerate(_activations(model)):
            if isinstance(activation, PerNeuron):
                views[f"alpha.{layer}"][0, : activation.alpha.numel()] = activation.alpha.detach()

    def state(self, index: int) -> dict[str, Tensor]:
        state = {name: view.clone() for name, view in self._views(index).items()}
        start = self._start[index]
        return state if start is None else {**state, "start": start}  # which is never written to

    def restore(self, index: int, state: dict[str, Tensor]) -> None:
        for name, view in self._views(index).items():
            view.copy_(state[name])
        self._start[index] = state.get("start")

    def _views(self, index: int) -> dict[str, Tensor]:
        """All that one run's training changes."""
        group = next(group for group in self._groups if group.runs.start <= index < group.runs.stop)
        both = zip(self._biases, self._layouts, strict=True)
        views = {f"weight.{layer}": weight[index] for layer, weight in enumerate(self._weights)}
        views |= {f"bias.{layer}": bias[index, :, : layout.outputs] for layer, (bias, layout) in enumerate(both)}
        for layer, kernel in enumerate(group.kernels):
            if kernel.alpha is not None:
                views[f"alpha.{layer}"] = kernel.alpha[index - group.runs.start]
        if self._added is not None:
            views |= {"start_scale": self._start_scale[index], "added": self._added[index]}
        return views

    def _make_groups(self) -> "Iterator[Group]":
        start = 0
        for _, members in groupby(self.specs, key=lambda spec: spec.recipe):
            specs = list(members)
            runs = slice(start, start + len(specs))
            start = runs.stop
            alphas: dict[int, Tensor] = {}  # by parameter: layers may share one
            kernels = []
            for activation, bias, layout in zip(
                _activations(specs[0].model), self._biases[:-1], self._layouts[:-1], strict=True
            ):
                alpha = None
                if isinstance(activation, PerNeuron):
                    count = bias.shape[-1] if activation.alpha.numel() == layout.outputs > 1 else 1
                    alpha = alphas.setdefault(id(activation.alpha), bias.new_zeros(len(specs), 1, count))
                kernels.append(make_padded_kernel(activation, alpha, units=layout.outputs, biases=bias[runs]))
            weights = [tensor[runs] for pair in zip(self._weights, self._biases, strict=True) for tensor in pair]
            weights[-1] = weights[-1][..., : self._layouts[-1].outputs]  # what is infinite is not for rules
            if self._added is not None:
                weights += [self._start_scale[runs], self._added[runs]]
            yield Group(runs, len(self.specs), specs, kernels, weights, self._layouts)


class Group:
    """Neighbours in a stack that differ in their seed only."""

    def __init__(
        self,
        runs: slice,
        all_runs: int,
        specs: Sequence[NetworkSpec],
        kernels: Sequence[Kernel],
        weights: Sequence[Tensor],
        layouts: Sequence[Layout],
    ) -> None:
        self.runs, self.kernels = runs, kernels
        self._whole = runs == slice(0, all_runs)
        self._weights, self._layouts = weights, layouts
        self._rules, self._lr = specs[0].rules, specs[0].lr
        self._before = [rule for rule in self._rules if overrides(rule, "before_update")]
        self._after = [rule for rule in self._rules if overrides(rule, "after_update")]
        self._new = [FreshUniform(spec) if spec.init == "default" else FreshWeights(spec) for spec in specs]
        self._fresh_weights: list[Tensor] = []

    def own(self, tensor: Tensor) -> Tensor:
        """The group's part of a tensor of the whole stack."""
        return tensor if self._whole else tensor[self.runs]

    def start_task(self, task: int) -> None:
        for rule in self._rules:
            rule.start_task(self._weights, lambda: self._fresh("task", task), task)

    def before_update(self) -> None:
        for rule in self._before:
            rule.before_update(self._weights, self._lr)

    def after_update(self, task: int, step: int) -> None:
        for kernel in self.kernels:
            if kernel.alpha is not None:
                kernel.add_gradient(kernel.alpha)
        for rule in self._after:
            rule.after_update(self._weights, lambda: self._fresh("step", task, step))

    def _fresh(self, *purpose: str | int) -> list[Tensor]:
        """Weights of newly initialised networks, in the layout of the stack."""
        if not self._fresh_weights:
            with torch.inference_mode(False):  # rules ask for them in and outside of it
                self._fresh_weights = [torch.zeros_like(weight) for weight in self._weights]
        for index, new in enumerate(self._new):
            places = []
            for layer, layout in enumerate(self._layouts):
                weight, bias = (tensor[index] for tensor in self._fresh_weights[2 * layer : 2 * layer + 2])
                places += [layout.inner(weight), bias[0, : layout.outputs]]
            new.write(places, *purpose)
        return self._fresh_weights


def _layouts(spec: NetworkSpec) -> Iterator[Layout]:
    linears = _linears(spec.model)
    inputs = linears[0].in_features if spec.gram is None else len(spec.gram.inputs)
    outputs = [linear.out_features for linear in linears]
    yield Layout(1, inputs, padded(inputs), outputs[0], padded(outputs[0]))
    for units, after in zip(outputs[:-1], linears[1:], strict=True):
        width = after.out_features
        yield Layout(after.in_features // units, units, padded(units), width, padded(width))


def _linears(model: nn.Module) -> list[nn.Linear]:
    return [layer for layer in _layers(model) if isinstance(layer, nn.Linear)]


def _activations(model: nn.Module) -> list[nn.Module]:
    return _layers(model)[2::2]


def _layers(model: nn.Module) -> list[nn.Module]:
    assert isinstance(model, nn.Sequential)
    return list(model)  # not `children`, where an activation that is used twice is there once


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
