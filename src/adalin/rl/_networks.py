"""Several small networks of the same form at once, with their gradients in closed form.

Autograd would allocate every intermediate anew, compute gradients that SAC throws away (those of the critics' weights
while the actor learns) and spend as long on bookkeeping as on products. Here all parameters lie in one vector, all
gradients in another, and activations are the kernels that supervised runs are trained with.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from adalin.engine import Kernel, has_kernel, library_for, make_kernel, padded, row_of_ones
from adalin.nn import PerNeuron


class MLPs:
    """n networks made of Linear, LayerNorm and activations: (n or 1, batch, inputs) -> (n, batch, outputs).

    The modules given are their first weights, and where `write_modules` puts the current ones.
    """

    def __init__(self, modules: Sequence[nn.Sequential]) -> None:
        self.modules = modules
        self._count = len(modules)
        self._layers = [list(column) for column in zip(*modules, strict=True)]
        self._outputs = self._last(self._layers).out_features
        self._slots = list(self._make_slots())
        size = sum(self._count * prod(slot.shape) for slot in self._slots)
        self.parameters, self.gradient = torch.zeros(size), torch.zeros(size)
        values, gradients = self._cut(self.parameters), self._cut(self.gradient)
        self._steps = list(self._make_steps(values, gradients))
        # Weights get their gradient at once; what activations learn may be shared by layers, and is summed up.
        both = zip(self._slots, gradients, strict=True)
        self._added_to = [gradient for slot, gradient in both if not slot.is_linear]
        self._kept: dict[int, Tensor] = {}
        self.read_modules()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, which the next call of the same batch size overwrites."""
        for step in self._steps:
            x = step.forward(x)
        return x[..., : self._outputs]

    def backward(self, grad: Tensor) -> None:
        """Puts the gradient for the parameters into `gradient`, given the one for the last forward's outputs."""
        for added_to in self._added_to:
            added_to.zero_()
        grad = self._padded(grad)
        for number, step in reversed(list(enumerate(self._steps))):
            step.add_gradient(grad)
            if number:
                grad = step.backward(grad)

    def input_gradient(self, grad: Tensor, *, last: int) -> Tensor:
        """(n, batch, last) for the last so many inputs, given the gradient for the last forward's outputs."""
        grad = self._padded(grad)
        first, *others = self._steps
        assert isinstance(first, LinearStep)
        for step in reversed(others):
            grad = step.backward(grad)
        return torch.bmm(grad, first.weight[:, -last:].mT)

    def read_modules(self) -> None:
        """Take the parameters of the modules."""
        for slot, values in zip(self._slots, self._cut(self.parameters), strict=True):
            for value, own in zip(values, slot.parameters, strict=True):
                slot.view(value, own).copy_(slot.turned(own.detach()))

    def write_modules(self) -> Sequence[nn.Sequential]:
        """Give the modules the current parameters; returns them."""
        with torch.no_grad():
            for slot, values in zip(self._slots, self._cut(self.parameters), strict=True):
                for value, own in zip(values, slot.parameters, strict=True):
                    own.copy_(slot.turned(slot.view(value, own)))
        return self.modules

    def _padded(self, grad: Tensor) -> Tensor:
        count, batch, outputs = grad.shape
        if batch not in self._kept:
            self._kept[batch] = grad.new_zeros(count, batch, padded(outputs))
        self._kept[batch][..., :outputs] = grad
        return self._kept[batch]

    def _make_slots(self) -> "Iterator[Slot]":
        """One for each parameter of a network; one that layers share has one."""
        seen: set[int] = set()
        for column in self._layers:
            # A product with 16 columns takes a third of the time of one with a single column. What is padded stays 0.
            width = padded(self._outputs) if column is self._layers[-1] else None
            for name, own in column[0].named_parameters():
                if id(own) in seen:
                    continue
                seen.add(id(own))
                members = [module.get_parameter(name) for module in column]
                if isinstance(column[0], nn.Linear):
                    out, inside = width or column[0].out_features, column[0].in_features
                    shape = (inside, out) if own.dim() == 2 else (1, out)
                    yield Slot(members, shape, is_linear=True, is_weight=own.dim() == 2)
                else:
                    yield Slot(members, (1, *own.shape) if own.dim() == 1 else tuple(own.shape))

    def _cut(self, flat: Tensor) -> list[Tensor]:
        shapes = [(self._count, *slot.shape) for slot in self._slots]
        parts = flat.split([prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _make_steps(self, values: list[Tensor], gradients: list[Tensor]) -> "Iterator[Step]":
        place = {id(slot.parameters[0]): number for number, slot in enumerate(self._slots)}
        for column in self._layers:
            first = column[0]
            numbers = [place[id(own)] for own in first.parameters()]
            own, grads = [values[number] for number in numbers], [gradients[number] for number in numbers]
            if isinstance(first, nn.Linear):
                yield LinearStep(*own, *grads)
            elif isinstance(first, nn.LayerNorm):
                yield NormStep(*own, *grads, eps=first.eps)
            elif has_kernel(first):
                alpha = own[0] if isinstance(first, PerNeuron) else None
                yield KernelStep(make_kernel(first, alpha), grads[0] if grads else None)
            else:
                yield ModuleStep(column, own, grads)

    @staticmethod
    def _last(layers: list[list[nn.Module]]) -> nn.Linear:
        last = layers[-1][0]
        assert isinstance(last, nn.Linear)
        return last


@dataclass(frozen=True)
class Slot:
    """A parameter of every network, and its place in the vector: (n, *shape)."""

    parameters: list[nn.Parameter]
    shape: tuple[int, ...]
    is_linear: bool = False
    """Of a linear layer."""
    is_weight: bool = False
    """Of a linear layer: (in, out) here, (out, in) in the module."""

    def turned(self, value: Tensor) -> Tensor:
        return value.T if self.is_weight else value

    def view(self, value: Tensor, own: Tensor) -> Tensor:
        """Without the padding, which only linear layers have."""
        if self.is_weight:
            return value[:, : len(own)]
        return value.flatten()[: own.numel()].view(own.shape)


class Step(ABC):
    """A layer of all networks: tensors of (n, batch, units)."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Its outputs."""

    @abstractmethod
    def add_gradient(self, grad: Tensor) -> None:
        """Of its parameters, given that for its outputs; comes before `backward`, which may overwrite what it needs."""

    @abstractmethod
    def backward(self, grad: Tensor) -> Tensor:
        """The gradient for the last inputs, given that for the outputs, which may be overwritten."""


class LinearStep(Step):
    def __init__(self, weight: Tensor, bias: Tensor, weight_grad: Tensor, bias_grad: Tensor) -> None:
        self.weight, self._bias, self._weight_grad, self._bias_grad = weight, bias, weight_grad, bias_grad
        self._kept: dict[tuple[str, int], Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        count, inputs, outputs = self.weight.shape
        self._x = x.expand(count, -1, inputs)
        out = self._memory("out", x.shape[1], outputs)
        self._library = library_for(x.shape[1] * inputs * outputs)
        with self._library:
            return torch.baddbmm(self._bias, self._x, self.weight, out=out)

    def add_gradient(self, grad: Tensor) -> None:
        with self._library:
            torch.bmm(self._x.mT, grad, out=self._weight_grad)
        torch.bmm(row_of_ones(*grad.shape[:2], grad.dtype), grad, out=self._bias_grad)

    def backward(self, grad: Tensor) -> Tensor:
        with self._library:
            return torch.bmm(grad, self.weight.mT, out=self._memory("grad", grad.shape[1], self.weight.shape[1]))

    def _memory(self, use: str, batch: int, units: int) -> Tensor:
        """The same memory each time: what is new must be brought into the cache first."""
        if (use, batch) not in self._kept:
            self._kept[use, batch] = self.weight.new_empty(len(self.weight), batch, units)
        return self._kept[use, batch]


class KernelStep(Step):
    def __init__(self, kernel: Kernel, alpha_grad: Tensor | None) -> None:
        self._kernel, self._alpha_grad = kernel, alpha_grad
        self._ready: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        return self._kernel.forward(x)

    def add_gradient(self, grad: Tensor) -> None:
        # A kernel knows alpha's gradient only after that of its inputs.
        self._ready = self._kernel.backward(grad)
        if self._alpha_grad is not None:
            self._kernel.add_gradient(self._alpha_grad)

    def backward(self, grad: Tensor) -> Tensor:
        ready, self._ready = self._ready, None
        return self._kernel.backward(grad) if ready is None else ready


class NormStep(Step):
    """Layer normalisation over the units."""

    def __init__(self, weight: Tensor, bias: Tensor, weight_grad: Tensor, bias_grad: Tensor, *, eps: float) -> None:
        self.weight, self._bias, self._weight_grad, self._bias_grad = weight, bias, weight_grad, bias_grad
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        self._normal, _, self._inverse = torch.native_layer_norm(x, x.shape[-1:], None, None, self._eps)
        return torch.addcmul(self._bias, self._normal, self.weight)

    def add_gradient(self, grad: Tensor) -> None:
        torch.sum(grad * self._normal, 1, keepdim=True, out=self._weight_grad)
        torch.sum(grad, 1, keepdim=True, out=self._bias_grad)

    def backward(self, grad: Tensor) -> Tensor:
        scaled = grad * self.weight
        along = (scaled * self._normal).mean(-1, keepdim=True)
        return (scaled - scaled.mean(-1, keepdim=True)).addcmul_(self._normal, along, value=-1).mul_(self._inverse)


class ModuleStep(Step):
    """Any other activation, by autograd; its parameters become views of the vector."""

    def __init__(self, modules: Sequence[nn.Module], values: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        self._modules, self._gradients = modules, gradients
        self._parameters = [
            [module.get_parameter(name) for module in modules] for name, _ in modules[0].named_parameters()
        ]
        for members, value in zip(self._parameters, values, strict=True):
            for own, view in zip(members, value, strict=True):
                view.copy_(own.detach().view_as(view))
                own.data = view.view_as(own)

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            self._x = x.detach().clone().requires_grad_()
            self._out = torch.stack([module(own) for module, own in zip(self._modules, self._x, strict=True)])
        return self._out.detach()

    def add_gradient(self, grad: Tensor) -> None:
        for members, gradient in zip(self._parameters, self._gradients, strict=True):
            for own, part in zip(
                torch.autograd.grad(self._out, members, grad, retain_graph=True), gradient, strict=True
            ):
                part += own.view_as(part)

    def backward(self, grad: Tensor) -> Tensor:
        return torch.autograd.grad(self._out, self._x, grad)[0]
