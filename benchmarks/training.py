"""A learner on its engine against a plain PyTorch loop.

The plain loop is what most people write: nn.Sequential, a straightforward AdaLin, a DataLoader, torch's optimiser. MLP
784-100-100-10 or 3072-100-100-10, AdaLin on ReLU, batch 16, one thread.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from adalin import AdaLin, native
from adalin.data import BUNDLED, load
from adalin.engine import Gram, Learner, Learning, make_net
from adalin.methods import Method
from adalin.models import make_model
from adalin.streams import Scaling, Task
from benchmarks._measure import Result, at_least, side_by_side
from benchmarks.plain import PlainAdaLin

IMAGES, BATCH, LR = 1_200, 16, 1e-2
BARS: dict[str, dict[str, float]] = {
    "v4": {"random-label MNIST": 13, "random-label CIFAR-10": 20, "random-label MNIST, Adam": 10},
    "v3": {"random-label MNIST": 8.5, "random-label CIFAR-10": 13, "random-label MNIST, Adam": 6.5},
}
"""Times a plain loop on native kernels, by their instruction set; PyTorch alone should reach 1.5."""


def measure() -> Iterator[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield from _mlp("random-label MNIST", load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255)
        # As fast as on real images: their number and size decide, not what is on them.
        yield from _mlp("random-label CIFAR-10", torch.rand(IMAGES, 3_072))
        yield from _mlp("random-label MNIST, Adam", torch.rand(IMAGES, 784), "adam+adalin")
        yield from _cnn()
        yield from _resnet()
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)


def _plain_epoch(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    batch: int = BATCH,
    clip: float | None = None,
    adam: bool = False,
) -> Callable[[], object]:
    loader = DataLoader(TensorDataset(images, labels), batch_size=batch, shuffle=True)
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(model.parameters(), lr=LR)

    def epoch() -> float:
        accuracy = 0.0
        for x, y in loader:
            logits = model(x)
            accuracy += (logits.argmax(1) == y).float().mean().item()
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        return accuracy

    return epoch


def _epoch(
    model: nn.Module, data: Task, *, method: str = "adalin", batch: int = BATCH, clip: float | None = None
) -> Callable[[], object]:
    """An epoch as the laboratory makes it."""
    learning = Learning(lr=LR, batch_size=batch, clip=clip)
    floats = data.floats(data.inputs[:IMAGES]).flatten(1)
    learner = Learner(make_net(model), Method.parse(method).optimizer, learning, gram=lambda: Gram.of(floats))
    learner.start_task(0, data, 10**9)
    steps = -(-len(data.inputs) // batch)

    def epoch() -> None:
        order, step = torch.randperm(len(data.inputs)), 0
        while step < steps:
            step += len(learner.train(order[step * batch :], step))

    return epoch


def _mlp_epoch(images: Tensor, method: str = "adalin") -> Callable[[], object]:
    model = make_model("mlp", (images.shape[1],), 10, Method.parse(method).activation)
    return _epoch(model, Task(images, torch.randint(10, (len(images),))), method=method)


def _mlp(name: str, images: Tensor, method: str = "adalin") -> Iterator[Result]:
    inputs = images.shape[1]
    plain = nn.Sequential(
        nn.Linear(inputs, 100), PlainAdaLin(100), nn.Linear(100, 100), PlainAdaLin(100), nn.Linear(100, 10)
    )
    labels = torch.randint(10, (len(images),))
    subjects = {
        "plain": _plain_epoch(plain, images, labels, adam=method != "adalin"),
        "ours": _mlp_epoch(images, method),
    }
    ratio = side_by_side(subjects, "ours", rounds=25, calls=1)["plain"]
    engine = make_net(make_model("mlp", (inputs,), 10, Method.parse(method).activation)).engine
    bars = BARS.get(native.isa() or "", {}) if engine == "native" else {}
    bar = bars.get(name, 1.5)
    for kind in ("fastest", "median"):
        yield at_least(bar, f"{name}, {engine} engine, {kind} epoch", getattr(ratio, kind), "x plain loop")


def _cnn() -> Iterator[Result]:
    images, labels = torch.rand(320, 3, 32, 32), torch.randint(100, (320,))
    activation = Method.parse("adalin").activation
    ours = _epoch(make_model("cnn", (3, 32, 32), 100, activation), Task(images, labels))
    plain = make_model("cnn", (3, 32, 32), 100, activation)
    for index, width in ((1, 16), (4, 16), (8, 64)):
        plain[index] = PlainAdaLin(width)  # type: ignore[operator]
    subjects = {"plain": _plain_epoch(plain, images, labels), "ours": ours}
    ratio = side_by_side(subjects, "ours", rounds=15, calls=1)["plain"]
    yield at_least(1.5, "class-split CNN, fastest epoch", ratio.fastest, "x plain loop")
    yield at_least(1.5, "class-split CNN, median epoch", ratio.median, "x plain loop")


def _resnet() -> Iterator[Result]:
    """The narrow network, with the batches and the clipping of class-incremental CIFAR-100."""
    pixels, labels = torch.randint(256, (500, 3, 32, 32), dtype=torch.uint8), torch.randint(100, (500,))
    activation, batch, clip = Method.parse("adalin").activation, 250, 0.5
    data = Task(pixels, labels, scale=Scaling("cifar100", "unit"))
    ours = _epoch(make_model("resnet18-narrow", (3, 32, 32), 100, activation), data, batch=batch, clip=clip)
    plain = make_model("resnet18-narrow", (3, 32, 32), 100, activation)
    for module in list(plain.modules()):
        for name, child in module.named_children():
            if isinstance(child, AdaLin):
                setattr(module, name, PlainAdaLin(child.alpha.numel()))
    subjects = {
        "plain": _plain_epoch(plain, pixels / 255, labels, batch=batch, clip=clip),
        "ours": ours,
    }
    ratio = side_by_side(subjects, "ours", rounds=8, calls=1)["plain"]
    yield at_least(1.2, "narrow ResNet-18, fastest epoch", ratio.fastest, "x plain loop")
    yield at_least(1.2, "narrow ResNet-18, median epoch", ratio.median, "x plain loop")
