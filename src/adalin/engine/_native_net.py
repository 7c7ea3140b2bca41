"""Multi-layer perceptrons and small convolutional networks on native kernels."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from adalin import native
from adalin.engine._convolutions import MODULES_EACH, ConvBlock, convolutions_of
from adalin.engine._gram import Gram
from adalin.engine._net import Net, Steps, Update
from adalin.engine._own_activations import own_activation
from adalin.engine._perceptron import KernelFunction, LinearBlock, RefusedError, blocks_of
from adalin.engine._place import Place
from adalin.engine._watched import WatchedOutputs
from adalin.native import ActivationKind, aligned_zeros, padded
from adalin.streams import Task
from adalin.structure import Part

PREDICTED_AT_ONCE = 256
"""Samples: a prediction needs no memory for more."""


class NativeNet(Net):
    """A perceptron of any depth and width whose parameters lie in two flat tensors, weights and others.

    Args:
        model: the network: Flatten, Linear, LayerNorm or not, activation, ..., Linear; before these there may be
            convolutions, each as Conv2d, activation, MaxPool2d. Its parameters move into the flat tensors, and stay its
            parameters.
        kernels: the native library, where it is not this machine's.
    """

    engine = "native"

    def __init__(self, model: nn.Module, kernels: ctypes.CDLL | None = None) -> None:
        self.model = model
        self._convs = convolutions_of(model)
        self._blocks = blocks_of(model, MODULES_EACH * len(self._convs))
        dtype = self._blocks[0].linear.weight.dtype
        self._places, convs, layers, lengths = _laid_out(model, self._convs, self._blocks)
        values, grads = ([aligned_zeros(length, dtype) for length in lengths] for _ in range(2))
        both = zip(("weights", "others"), values, grads, strict=True)
        self.parts = tuple(Part(name, value, grad, name == "weights") for name, value, grad in both)
        self._network = native.Network(convs, layers, values, grads, kernels)
        self._own = {
            index: own_activation(block.activation)
            for index, block in enumerate(self._blocks)
            if block.function.kind == ActivationKind.FOREIGN and block.activation is not None
        }
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                view = self._places[name].of(values)
                view.copy_(parameter)
                parameter.data = view
        self._data: native.Data | None = None
        self._update: Update | None = None
        self._pass: native.Pass | None = None
        self._gram: Gram | None = None
        self._x = torch.empty(0)
        self._seen = 0
        self._watched: WatchedOutputs | None = None

    @staticmethod
    def refusal(model: nn.Module) -> str:
        """Why native kernels cannot train a network, as the end of a sentence; empty where they can."""
        if native.library() is None:
            return "there are no native kernels here"
        try:
            blocks = blocks_of(model, MODULES_EACH * len(convolutions_of(model)))
        except RefusedError as refused:
            return str(refused)
        dtype = blocks[0].linear.weight.dtype
        return "" if dtype is torch.float32 else f"its parameters are {dtype}"

    @property
    def kernels(self) -> ctypes.CDLL | None:
        return self._network.kernels

    def watch(self) -> None:
        # Kernels keep no outputs of convolutions, but only the largest of each four: the module itself gives them.
        if self._convs:
            self._watched = WatchedOutputs(self.model, self.layers)

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        if self._watched is not None:
            return self._watched.outputs
        return {
            layer.name: layer.outputs(self._network.answers(index, self._seen))
            for index, layer in enumerate(self.layers)
        }

    def named(self, values: Sequence[Tensor]) -> Mapping[str, Tensor]:
        return {name: place.of(values) for name, place in self._places.items()}

    # ---- Tasks -------------------------------------------------------------------------------------------------------

    def start_task(self, task: int, data: Task, gram: Gram | None = None) -> None:
        inputs = self._rows(data.floats(data.inputs)).contiguous()
        labels = data.labels.contiguous()
        classes = self._blocks[-1].linear.out_features
        if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
            raise ValueError(f"labels run from {labels.min()} to {labels.max()}, and the network has {classes} outputs")
        # A convolution has no products of whole images, and Python's activations need batches of inputs.
        self._gram = gram = None if self._convs or self._own else gram
        if gram is None:
            self._data = native.Data(inputs, labels)
            return
        layer, images, dtype = self._network.layers[0], len(inputs), inputs.dtype
        # Added, not copied: padding may be -0, and a checkpoint of the weights would not know.
        start = aligned_zeros(layer.inputs * layer.padded, dtype).add_(self._first_weights)
        products, added = (aligned_zeros(images * layer.padded, dtype) for _ in range(2))
        state = native.GramState(start, products, added, torch.ones((), dtype=torch.float64))
        self._images = inputs
        self._data = native.Data(gram.products.contiguous(), labels, state)
        self._network.gram_start(self._data, inputs)

    def end_task(self) -> None:
        if self._gram is not None:
            self._bring_up_to_date()
            self._gram = None

    def state(self) -> dict[str, Tensor]:
        if self._gram is None:
            return {}
        self._bring_up_to_date()
        return {name: value.clone() for name, value in self._gram_tensors().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        if self._gram is not None:
            for name, value in self._gram_tensors().items():
                value.copy_(state[name])

    # ---- Steps -------------------------------------------------------------------------------------------------------

    def train_steps(self, order: Tensor, batch_size: int, first_step: int, update: Update) -> Steps:
        if self._update is not update:
            own = update.optimizer.native(update.state, self.parts, update.lr)
            self._update, self._pass = (
                update,
                None if own is None else replace(own, shrink=update.shrink, perturbation=update.perturbation),
            )
        own = self._pass
        if own is None or update.clip is not None:
            assert self._gram is None, "a learner that gives products of images trains by plain SGD"
            return super().train_steps(order, batch_size, first_step, update)
        if self._own:
            return self._train_in_turns(order, batch_size, first_step, own.ready(self._network.kernels))
        self._x = torch.empty(0)  # of the last forward pass nothing is left
        correct, losses = self._network.train(self._given, order.contiguous(), batch_size, own)
        return Steps(correct, losses, diverged=correct.shape[0] < -(-order.shape[0] // batch_size))

    def _train_in_turns(self, order: Tensor, batch_size: int, first_step: int, move: Callable[[], None]) -> Steps:
        made: list[Steps] = []
        for step, rows in enumerate(order.split(batch_size), first_step):
            made.append(self.compute_gradients(rows, step))
            if made[-1].diverged:
                break
            move()
        return Steps.joined(made)

    def compute_gradients(self, rows: Tensor, step: int) -> Steps:
        rows = rows.contiguous()
        self._seen = rows.shape[0]
        if self._watched is not None:
            self._look(rows)
        if self._own:
            self._x = self._given.inputs.index_select(0, rows)
            self._run(self._x)
            finite, correct, losses = self._network.loss(self._given, rows)
            if finite:
                self._network.backward(self._x)
        else:
            self._x = torch.empty(0)
            finite, correct, losses = self._network.gradients(self._given, rows)
        return Steps(correct, losses) if finite else Steps.none()

    def _look(self, rows: Tensor) -> None:
        """Let the module give the outputs of its hidden layers for some images."""
        first, channels = self._network.convs[0], self._convs[0].conv.in_channels
        images = self._given.inputs.index_select(0, rows).view(-1, first.height, first.width, channels)
        with torch.enable_grad():
            self.model(images.permute(0, 3, 1, 2))

    def forward(self, x: Tensor) -> Tensor:
        self._x, self._seen = self._rows(x), x.shape[0]
        self._run(self._x)
        return self._network.outputs(x.shape[0]).clone()

    def forward_with_hooks(self, x: Tensor) -> Tensor:
        """As `forward`; the modules of activations are called, too, so that hooks see what is on its way.

        Convolutions' activations are not: `can_call_hooks`.
        """
        self._x, batch, start = self._rows(x), x.shape[0], 0
        for index, block in enumerate(self._blocks):
            if block.activation is None:
                continue
            self._network.forward(self._x, start, index + 1, activated=False)
            own, start = self._network.activation_inputs(index, batch).clone(), index + 1
            if index in self._own:
                self._network.put_activation(index, *self._own[index](own.clone()))
            else:
                self._network.activate(index, batch)
            block.activation(own)
        self._network.forward(self._x, start)
        return self._network.outputs(batch).clone()

    @property
    def can_call_hooks(self) -> bool:
        """Whether `forward_with_hooks` calls all activations."""
        return not self._convs

    def predict(self, x: Tensor) -> Tensor:
        return torch.cat([self._predicted(rows) for rows in self._rows(x).split(PREDICTED_AT_ONCE)])

    def _predicted(self, x: Tensor) -> Tensor:
        self._run(x, keep=False)
        return self._network.outputs(x.shape[0]).clone()

    def backward(self, grad: Tensor) -> None:
        self._put(grad)
        self._network.backward(self._x)

    def input_gradient(self, grad: Tensor) -> Tensor:
        self._put(grad)
        result = self._x.new_empty(self._x.shape)
        self._network.inputs_backward(result)
        if not self._convs:
            return result
        first = self._network.convs[0]
        return result.view(-1, first.height, first.width, first.channels).permute(0, 3, 1, 2)

    def _rows(self, x: Tensor) -> Tensor:
        """A batch as dense rows, which may be apart from each other; images with the channels last."""
        x = x.detach()
        if self._convs:
            channels = self._convs[0].conv.in_channels
            if x.dim() != 4 or x.shape[1] != channels:
                raise ValueError(f"the network takes images of {channels} channels, not a tensor {tuple(x.shape)}")
            self._network.see(x.shape[2], x.shape[3])
            x = x.permute(0, 2, 3, 1)
        rows = x if x.dim() == 2 else x.flatten(1)
        return rows if rows.stride(1) == 1 else rows.contiguous()

    def _run(self, x: Tensor, *, keep: bool = True) -> None:
        """All layers, with a user's own activations between them; without `keep`, no gradients can follow."""
        start, batch = 0, x.shape[0]
        for index, activation in self._own.items():
            self._network.forward(x, start, index + 1, keep=keep)
            self._network.put_activation(index, *activation(self._network.activation_inputs(index, batch).clone()))
            start = index + 1
        self._network.forward(x, start, keep=keep)

    def _put(self, grad: Tensor) -> None:
        expected = (self._x.shape[0], self._network.layers[-1].outputs)  # of no images but after `forward`
        if grad.shape != expected:
            raise ValueError(f"the gradient must be {expected}, not {tuple(grad.shape)}")
        self._network.put_grad(grad)

    # ---- Weights by products of images -------------------------------------------------------------------------------

    @property
    def _given(self) -> native.Data:
        assert self._data is not None, "a task has started"
        return self._data

    @property
    def _first_weights(self) -> Tensor:
        layer = self._network.layers[0]
        return self.parts[0].value[: layer.inputs * layer.padded]

    def _bring_up_to_date(self) -> None:
        self._network.gram_weights(self._given, self._images)

    def _gram_tensors(self) -> dict[str, Tensor]:
        gram = self._given.gram
        assert gram is not None
        return {
            "gram.start": gram.start,
            "gram.start_products": gram.start_products,
            "gram.added": gram.added,
            "gram.scale": gram.scale,
        }


def _laid_out(
    model: nn.Module, conv_blocks: Sequence[ConvBlock], blocks: Sequence[LinearBlock]
) -> tuple[dict[str, Place], list[native.Conv], list[native.LinearLayer], list[int]]:
    """Where each parameter is, convolutions and layers with their offsets, and the lengths of the two flat tensors."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    places: dict[str, Place] = {}
    lengths = [0, 0]

    def offset(parameter: Tensor | None, part: int) -> int:
        if parameter is None:
            return -1
        name = names[id(parameter)]
        if name not in places:
            places[name] = Place(part, lengths[part], parameter.shape)
            lengths[part] = places[name].end
        return places[name].offset

    def with_function(layer: native.LinearLayer, function: KernelFunction, alpha: Tensor | None) -> native.LinearLayer:
        layer.kind, layer.alpha, layer.alphas = function.kind, offset(alpha, 1), 0 if alpha is None else alpha.numel()
        layer.set_function(function.base, function.gate, function.inverse_lipschitz, function.numbers)
        return layer

    convs, layers = [], []
    for conv_block in conv_blocks:
        conv = conv_block.conv
        outputs, channels, kernel, _ = conv.weight.shape
        units = native.LinearLayer(
            inputs=kernel * kernel * channels,
            outputs=outputs,
            width=conv_block.width,
            weight=offset(conv.weight, 0),
            bias=offset(conv.bias, 0),
        )
        units = with_function(units, conv_block.function, conv_block.alpha)
        convs.append(native.Conv(channels=channels, kernel=kernel, units=units))
    for block in blocks:
        linear, function, norm = block.linear, block.function, block.norm
        layer = native.LinearLayer(
            inputs=linear.in_features,
            outputs=linear.out_features,
            width=block.width,
            weight=offset(linear.weight, 0),
            bias=offset(linear.bias, 0),
            gain=offset(None if norm is None else norm.weight, 1),
            shift=offset(None if norm is None else norm.bias, 1),
            has_norm=norm is not None,
            epsilon=0.0 if norm is None else norm.eps,
        )
        layers.append(with_function(layer, function, block.alpha))
    ordered = {name: places[name] for name in names.values()}
    return ordered, convs, layers, [lengths[0], max(lengths[1], padded(1))]
