"""The kernels of networks and optimisers: what they refuse, and passes against torch.optim."""

import gc
import re
import weakref

import pytest
import torch

from adalin import native
from adalin.native import ActivationKind, Data, GramState, LinearLayer, Network, Pass, PassKind, aligned_zeros, padded
from adalin.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from adalin.structure import Part
from double_kernels import double_kernels

pytestmark = pytest.mark.skipif(native.isa() is None, reason="no native kernels here")

PASSES: list[tuple[Optimizer, type[torch.optim.Optimizer], dict[str, float | bool]]] = [
    (SGD(), torch.optim.SGD, {}),
    (SGD(weight_decay=0.1), torch.optim.SGD, {}),
    (SGD(momentum=0.9), torch.optim.SGD, {"momentum": 0.9}),
    (SGD(momentum=0.9, nesterov=True, weight_decay=0.1), torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    (Adam(), torch.optim.Adam, {}),
    (Adam(beta1=0.8, beta2=0.99, eps=1e-3, weight_decay=0.1), torch.optim.Adam, {"betas": (0.8, 0.99), "eps": 1e-3}),
    (AdamW(), torch.optim.AdamW, {}),
    (RMSprop(), torch.optim.RMSprop, {}),
    (RMSprop(alpha=0.9, momentum=0.5, weight_decay=0.1), torch.optim.RMSprop, {"alpha": 0.9, "momentum": 0.5}),
]


@pytest.mark.parametrize(("optimizer", "torchs", "options"), PASSES, ids=lambda value: repr(value))
def test_passes_are_the_steps_of_torchs_optimisers(optimizer: Optimizer, torchs, options) -> None:
    parts = [
        Part(name, aligned_zeros(length, torch.float64), aligned_zeros(length, torch.float64), name == "weights")
        for name, length in (("weights", 64), ("others", 16))
    ]
    for part in parts:
        part.value.normal_()
    copies = [part.value.clone().requires_grad_() for part in parts]
    decay = [optimizer.weight_decay, 0.0]
    groups = [{"params": [copy], "weight_decay": own} for copy, own in zip(copies, decay, strict=True)]
    theirs, state = torchs(groups, lr=0.01, **options), optimizer.init(parts)
    own = optimizer.native(state, parts, 0.01)
    assert own is not None
    move = own.ready(double_kernels())
    for _ in range(20):
        for part, copy in zip(parts, copies, strict=True):
            copy.grad = part.grad.normal_().clone()
        move()
        theirs.step()
        for part, copy in zip(parts, copies, strict=True):
            torch.testing.assert_close(part.value, copy.detach(), rtol=0, atol=1e-12)


def test_a_pass_shrinks_weights_before_it_moves_them() -> None:
    value, other = aligned_zeros(16, torch.float32).fill_(2.0), aligned_zeros(16, torch.float32).fill_(2.0)
    grads = [torch.ones(16), torch.ones(16)]
    Pass(PassKind.SGD, [value, other], grads, [True, False], 0.5, shrink=0.25)()
    assert value.eq(0).all()
    assert other.eq(1.5).all()


def test_a_pass_that_is_ready_keeps_the_tensors_it_works_with() -> None:
    own = Pass(PassKind.SGD, [torch.ones(16)], [torch.ones(16)], [True], 0.5)
    kept = [weakref.ref(tensor) for tensor in (own.values[0], own.grads[0], own.steps)]
    move = own.ready(native.library())
    del own
    gc.collect()
    move()
    assert [tensor().sum().item() for tensor in kept] == [8, 16, 1]


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (torch.zeros(16).double(), "a parameter must be torch.float32 on the CPU, not torch.float64 on cpu"),
        (torch.zeros(15), "an optimiser's tensor has 15 elements, which is no multiple of 16"),
        (torch.zeros(32)[::2], "the strides of a parameter are (2,), not those of a contiguous (16,)"),
    ],
    ids=["dtype", "length", "strides"],
)
def test_a_pass_refuses_what_it_cannot_read(tensor, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        Pass(PassKind.SGD, [tensor], [torch.zeros(tensor.shape)], [True], 0.1)()


def linear_network(inputs: int = 5, outputs: int = 3) -> Network:
    count = (inputs + 1) * padded(outputs)
    layer = LinearLayer(inputs=inputs, outputs=outputs, width=outputs, weight=0, bias=inputs * padded(outputs))
    layer.kind = ActivationKind.OUTPUT
    layer.gain = layer.shift = layer.alpha = -1
    values, grads = ([aligned_zeros(count, torch.float32), aligned_zeros(16, torch.float32)] for _ in range(2))
    return Network([], [layer], values, grads, None)


def test_a_network_refuses_what_does_not_fit_in_one_line() -> None:
    network, rows = linear_network(), torch.arange(4)
    labels, images = torch.zeros(4, dtype=torch.int64), torch.zeros(4, 5)
    for data, chosen, complaint in (
        (
            Data(torch.zeros(5, 4).T, labels),
            rows,
            "the strides of the inputs are (1, 4), not those of a contiguous (4, 5)",
        ),
        (Data(images, labels.int()), rows, "the labels must be torch.int64 on the CPU, not torch.int32 on cpu"),
        (Data(images, labels[:3]), rows, "the labels must have 4 elements, not 3"),
        (Data(torch.zeros(4, 6), labels), rows, "images have 6 numbers, and the network takes 5"),
        (Data(images, labels), rows + 1, "the order names images from 1 to 4, and there are 4"),
        (Data(images, labels), rows - 1, "the order names images from -1 to 2, and there are 4"),
        (Data(images, labels), rows[:0], "a batch has at least one image, not 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(complaint)):
            network.gradients(data, chosen)


def test_products_of_images_give_no_gradients_of_weights() -> None:
    network, zeros = linear_network(), [aligned_zeros(length * 16, torch.float32) for length in (5, 4, 4)]
    gram = GramState(*zeros, torch.ones((), dtype=torch.float64))
    data = Data(torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64), gram)
    with pytest.raises(ValueError, match="products of images train a first layer without its gradients"):
        network.gradients(data, torch.arange(4))


def test_banks_begin_at_cache_lines() -> None:
    for length in (1, 16, 33):
        values = aligned_zeros(length, torch.float32)
        assert values.data_ptr() % 64 == 0
        assert values.shape == (length,)
    layer = LinearLayer(inputs=1, outputs=1, width=1, bias=16, gain=-1, shift=-1, alpha=-1)
    crooked = torch.zeros(64)[1:33]
    with pytest.raises(ValueError, match="a bank is not aligned to 64 bytes"):
        Network([], [layer], [crooked, crooked], [crooked, crooked], None)
