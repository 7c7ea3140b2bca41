"""The kernels of networks: tensors in, checked, and in place."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from adalin.native._layer import GATES, Base
from adalin.native._library import library
from adalin.native._memory import ALIGNMENT, STEP, address_of, aligned_zeros, padded, real_type
from adalin.native._pass import Pass

_pointer, _integer, _double = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class ActivationKind(IntEnum):
    """What follows a linear layer, in the order of `network.h`."""

    OUTPUT = 0
    PLAIN = 1
    ADALIN = 2
    INTERPOLATION = 3
    CRELU = 4
    FOURIER = 5
    FOREIGN = 6
    """An activation that Python computes between the products."""


class LinearLayer(ctypes.Structure):
    """`LinearLayer` of `network.h`: a linear layer, a norm if there is one, an activation."""

    _fields_ = (
        *((name, _integer) for name in ("inputs", "outputs", "width", "weight", "bias", "gain", "shift", "alpha")),
        ("alphas", _integer),
        *((name, ctypes.c_int32) for name in ("kind", "base", "gate", "has_norm")),
        ("inverse_lipschitz", _double),
        ("numbers", _double * 3),
        ("epsilon", _double),
        *((name, _integer) for name in ("input", "normal", "deviation", "answer", "slope", "injected", "grad")),
    )

    inputs: int
    outputs: int
    width: int
    kind: int
    input: int
    answer: int
    grad: int
    slope: int
    injected: int

    @property
    def padded(self) -> int:
        """Units with padding."""
        return padded(self.outputs)

    @property
    def stride(self) -> int:
        """Distance between two samples' answers in the workspace."""
        return padded(self.width) + STEP

    def set_function(self, base: str, gate: str, inverse_lipschitz: float, numbers: Sequence[float]) -> None:
        """Take a base with its numbers, L and a gate."""
        self.base, self.gate, self.inverse_lipschitz = Base[base], GATES.index(gate), inverse_lipschitz
        self.numbers[: len(numbers)] = numbers


class Conv(ctypes.Structure):
    """`Conv` of `network.h`: a convolution without padding, an activation, the largest of each 2 x 2 answers."""

    _fields_ = (
        *((name, _integer) for name in ("height", "width", "channels", "kernel")),
        ("units", LinearLayer),
        *((name, _integer) for name in ("output", "winner", "place", "grad", "sums", "turned", "alphas")),
    )

    height: int
    width: int
    channels: int
    kernel: int
    units: LinearLayer


class _Network(ctypes.Structure):
    _fields_ = (
        ("depth", _integer),
        ("layers", ctypes.POINTER(LinearLayer)),
        *((name, _pointer) for name in ("weights", "others", "weight_grads", "other_grads")),
        *((name, _integer) for name in ("weight_count", "other_count")),
        ("workspace", _pointer),
        ("batch", _integer),
        ("transposed", _integer * 2),
        ("sums", _integer),
        ("batches", _integer * 2),
        ("conv_depth", _integer),
        ("convs", ctypes.POINTER(Conv)),
        *((name, _integer) for name in ("conv_room", "image_grad", "from_images")),
    )


class _Data(ctypes.Structure):
    _fields_ = (
        ("inputs", _pointer),
        ("labels", _pointer),
        *((name, _integer) for name in ("features", "images")),
        *((name, _pointer) for name in ("start", "start_products", "added", "scale")),
    )


@dataclass(frozen=True, eq=False)
class GramState:
    """A first layer's weights as scale * (start + inputs' * added), all with padded outputs."""

    start: Tensor
    """Weights at first, (features, outputs)."""
    start_products: Tensor
    """Their products with all images, (images, outputs)."""
    added: Tensor
    """Combination of images, (images, outputs)."""
    scale: Tensor
    """Float64 scalar."""


@dataclass(frozen=True, eq=False)
class Data:
    """What training steps read by its index."""

    inputs: Tensor
    """Inputs (images, features), or with a Gram matrix the products of all images."""
    labels: Tensor
    """Classes, int64 (images,)."""
    gram: GramState | None = None
    """The first layer, where products of images train it."""


class Network:
    """A perceptron on native kernels, behind convolutions or not.

    Args:
        convs: convolutions before the layers; `see` sets the size of their images.
        layers: its layers, with offsets into the parameters.
        values: weights and others, flat, padded and aligned.
        grads: their gradients.
        kernels: the library, where it is not this machine's; one in double takes double tensors.
    """

    def __init__(
        self,
        convs: Sequence[Conv],
        layers: Sequence[LinearLayer],
        values: Sequence[Tensor],
        grads: Sequence[Tensor],
        kernels: ctypes.CDLL | None,
    ) -> None:
        found = kernels or library()
        assert found is not None, "the caller looks first"
        self.kernels, self.dtype = found, real_type(found)
        self.layers = (LinearLayer * len(layers))(*layers)
        self.convs = (Conv * len(convs))(*convs)
        self._kept = [*values, *grads]
        addresses = [address_of(tensor, "a bank", self.dtype, tensor.numel(), ALIGNMENT) for tensor in self._kept]
        self._network = _Network(len(layers), self.layers, *addresses, *(value.numel() for value in values))
        self._network.conv_depth, self._network.convs = len(convs), self.convs
        self._reference = ctypes.addressof(self._network)
        self._features = self.features = layers[0].inputs
        self.workspace = torch.empty(0, dtype=self.dtype)
        self._views: dict[tuple[int, int, int, int], Tensor] = {}
        self._last: tuple[Data, _Data] | None = None
        self._counts = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)

    def see(self, height: int, width: int) -> None:
        """Take images of this size, and from then on no others."""
        first, given = self.convs[0], f"{height} x {width}"
        if first.height:
            if (first.height, first.width) != (height, width):
                raise ValueError(f"the network takes images of {first.height} x {first.width} pixels, not {given}")
            return
        sizes = [(height, width)]
        for conv in self.convs:
            sizes.append(((sizes[-1][0] - conv.kernel + 1) // 2, (sizes[-1][1] - conv.kernel + 1) // 2))
        rows, columns = sizes[-1]
        if rows < 1 or columns < 1:
            raise ValueError(f"images of {given} pixels are too small for the convolutions")
        inputs = self.layers[0].inputs
        if rows * columns * self.convs[-1].units.width != inputs:
            raise ValueError(f"images of {given} pixels do not fit {inputs} inputs of the first linear layer")
        for conv, size in zip(self.convs, sizes[:-1], strict=True):
            conv.height, conv.width = size
        self._features = self.features = height * width * first.channels

    def reserve(self, batch: int, features: int = 0) -> None:
        """Make room for batches of this size, from rows of this length."""
        if batch < 1:
            raise ValueError(f"a batch has at least one image, not {batch}")
        if batch > self._network.batch or features > self._features:
            batch, self._features = max(batch, self._network.batch), max(features, self._features)
            length = self.kernels.adalin_plan(self._reference, batch, self._features)
            self.workspace = aligned_zeros(length, self.dtype)
            self._views.clear()
            self._network.workspace = self.workspace.data_ptr()

    def view(self, offset: int, batch: int, stride: int, columns: int) -> Tensor:
        """Some of the workspace; kept while that stays where it is."""
        key = offset, batch, stride, columns
        if key not in self._views:
            start = self.workspace.storage_offset() + offset
            self._views[key] = self.workspace.as_strided((batch, columns), (stride, 1), start)
        return self._views[key]

    def forward(
        self, x: Tensor, first: int = 0, last: int | None = None, *, keep: bool = True, activated: bool = True
    ) -> None:
        """Layers from `first` up to and without `last`.

        Without `keep`, no backward pass can follow; without `activated`, the last one's activation is still to come.
        """
        batch, end = x.shape[0], len(self.layers) if last is None else last
        self.reserve(batch)
        self.kernels.adalin_network_forward(self._reference, *self._batch(x), batch, first, end, keep, activated)

    def activate(self, index: int, batch: int) -> None:
        """The activation of a layer, with its derivatives."""
        self.kernels.adalin_network_activate(self._reference, index, batch)

    def outputs(self, batch: int) -> Tensor:
        """Of the last layer, in the workspace."""
        last = self.layers[-1]
        return self.view(last.input, batch, last.padded, last.outputs)

    def activation_inputs(self, index: int, batch: int) -> Tensor:
        """What the activation of a layer is given, in the workspace."""
        layer = self.layers[index]
        stride = layer.stride if layer.input == layer.answer else layer.padded
        return self.view(layer.input, batch, stride, layer.outputs)

    def answers(self, index: int, batch: int) -> Tensor:
        """What the activation of a layer gave for the last batch, in the workspace."""
        layer = self.layers[index]
        return self.view(layer.answer, batch, layer.stride, layer.width)

    def put_activation(self, index: int, y: Tensor, slope: Tensor, injected: Tensor | None) -> None:
        """Answers of a foreign activation, and its derivatives for its input and for alpha."""
        layer, (batch, units) = self.layers[index], y.shape
        self.view(layer.answer, batch, layer.stride, units).copy_(y)
        self.view(layer.slope, batch, layer.stride, units).copy_(slope)
        if injected is not None:
            self.view(layer.injected, batch, layer.padded, units).copy_(injected)

    def put_grad(self, grad: Tensor) -> None:
        """The gradient for the outputs."""
        layer, batch = self.layers[-1], grad.shape[0]
        self.view(layer.grad, batch, layer.stride, layer.outputs).copy_(grad)
        self.view(layer.grad + layer.outputs, batch, layer.stride, layer.padded - layer.outputs).zero_()

    def backward(self, x: Tensor) -> None:
        """All gradients, from that for the outputs of the last pass."""
        self.kernels.adalin_network_backward(self._reference, *self._batch(x), x.shape[0])

    def inputs_backward(self, to: Tensor) -> None:
        """The gradient for the inputs alone."""
        batch = to.shape[0]
        address = address_of(to, "the inputs' gradient", self.dtype, batch * self.features)
        self.kernels.adalin_network_inputs_backward(self._reference, batch, address)

    def loss(self, data: Data, rows: Tensor) -> tuple[bool, Tensor, Tensor]:
        """Whether the outputs of the last pass are finite, right answers, loss; leaves the gradient for the outputs."""
        correct, losses = (torch.empty_like(tensor) for tensor in self._counts)
        finite = self.kernels.adalin_network_loss(
            self._reference,
            address_of(data.labels, "the labels", torch.int64, data.inputs.shape[0]),
            _rows(rows, data.inputs.shape[0]),
            rows.shape[0],
            correct.data_ptr(),
            losses.data_ptr(),
        )
        return bool(finite), correct, losses

    def gradients(self, data: Data, rows: Tensor) -> tuple[bool, Tensor, Tensor]:
        """All gradients of these rows' mean loss, if their outputs are finite; right answers, loss."""
        if data.gram is not None:
            raise ValueError("products of images train a first layer without its gradients")
        given = self._data(data)
        self.reserve(rows.shape[0], given.features)
        correct, losses = (torch.empty_like(tensor) for tensor in self._counts)
        finite = self.kernels.adalin_network_gradients(
            self._reference,
            ctypes.addressof(given),
            _rows(rows, data.inputs.shape[0]),
            rows.shape[0],
            correct.data_ptr(),
            losses.data_ptr(),
        )
        return bool(finite), correct, losses

    def train(self, data: Data, order: Tensor, batch: int, update: Pass) -> tuple[Tensor, Tensor]:
        """Right answers and losses of steps through an order, up to the first one whose outputs are not finite."""
        given = self._data(data)
        self.reserve(min(batch, order.shape[0]), given.features)
        if data.gram is not None and not update.is_plain:
            raise ValueError("products of images train a first layer by SGD without momentum only")
        own, parts = update.structures(self.dtype)
        steps = -(-order.shape[0] // batch)
        correct, losses = torch.empty(steps, dtype=torch.int64), torch.empty(steps, dtype=torch.float64)
        made = self.kernels.adalin_network_train(
            self._reference,
            ctypes.addressof(given),
            _rows(order, data.inputs.shape[0]),
            order.shape[0],
            batch,
            ctypes.addressof(own),
            ctypes.addressof(parts),
            correct.data_ptr(),
            losses.data_ptr(),
        )
        return correct[:made], losses[:made]

    def gram_start(self, data: Data, images: Tensor) -> None:
        """Fill `start_products`."""
        self._gram(self.kernels.adalin_network_gram_start, data, images)

    def gram_weights(self, data: Data, images: Tensor) -> None:
        """Bring the weights of the first layer up to date."""
        self._gram(self.kernels.adalin_network_gram_weights, data, images)

    def _gram(self, kernel: "ctypes._NamedFuncPointer", data: Data, images: Tensor) -> None:
        given = self._data(data)
        kernel(
            self._reference,
            ctypes.addressof(given),
            address_of(images, "the images", self.dtype, data.inputs.shape[0] * self.features),
        )

    def _data(self, data: Data) -> _Data:
        if self._last is None or self._last[0] is not data:
            self._last = data, self._checked(data)
        return self._last[1]

    def _checked(self, data: Data) -> _Data:
        images, features = data.inputs.shape
        addresses = [
            address_of(data.inputs, "the inputs", self.dtype, images * features),
            address_of(data.labels, "the labels", torch.int64, images),
        ]
        if data.gram is None:
            if features != self.features:
                raise ValueError(f"images have {features} numbers, and the network takes {self.features}")
            return _Data(*addresses, features, images)
        width = self.layers[0].padded
        if features != images:
            raise ValueError(f"products of {images} images are {images} x {images}, not {images} x {features}")
        gram = [
            address_of(data.gram.start, "the first weights", self.dtype, self.features * width, ALIGNMENT),
            address_of(data.gram.start_products, "their products", self.dtype, images * width, ALIGNMENT),
            address_of(data.gram.added, "the combination", self.dtype, images * width, ALIGNMENT),
            address_of(data.gram.scale, "the scale", torch.float64, 1),
        ]
        return _Data(*addresses, features, images, *gram)

    def _batch(self, x: Tensor) -> tuple[int, int]:
        """Address of a batch, and the distance between its rows."""
        if x.dim() != 2 or x.shape[1] != self.features:
            raise ValueError(f"a batch is (images, {self.features}), not {tuple(x.shape)}")
        if x.dtype is not self.dtype or not x.is_cpu:
            raise ValueError(f"the batch must be {self.dtype} on the CPU, not {x.dtype} on {x.device}")
        distance, step = x.stride()
        if (step != 1 and self.features > 1) or (distance < self.features and x.shape[0] > 1):
            raise ValueError(f"the batch's rows must be dense, and its strides are {x.stride()}")
        return x.data_ptr(), distance


def _rows(rows: Tensor, images: int) -> int:
    if rows.shape[0] == 0:
        raise ValueError("a step needs at least one image")
    address = address_of(rows, "the order", torch.int64, rows.shape[0])
    least, most = rows.aminmax()
    if least < 0 or most >= images:
        raise ValueError(f"the order names images from {least} to {most}, and there are {images}")
    return address
