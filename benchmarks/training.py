"""Training a network against a plain PyTorch loop and against JAX.

The plain loop is what most people write: nn.Sequential, a straightforward activation, a DataLoader, torch's optimiser.
The lean loop indexes tensors and takes the fused optimiser. MLP 784-100-100-10 or 3072-100-100-10, AdaLin on ReLU,
1,200 images, batch 16, one thread, CPU time. A "step" is one of one network: where JAX trains eight at once, eight.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from adalin import AdaLin
from adalin.data import BUNDLED, load
from adalin.engine import Gram, Learner, Learning, make_net
from adalin.methods import Method, Rule
from adalin.models import make_model
from adalin.optim import SGD, Adam
from adalin.streams import Scaling, Task
from adalin.structure import Network
from benchmarks import plain
from benchmarks._measure import (
    Ratio,
    Result,
    Times,
    at_least,
    by_isa,
    in_turns,
    missing_rival,
    noted,
    one_thread,
    ratio,
    side_by_side,
    skipped,
)
from benchmarks.peak import multiply_adds_per_second

IMAGES, BATCH = 1_200, 16
STEPS = IMAGES // BATCH
LR = plain.LR
SHARE_OF_ADALINS = 0.75
"""What the other methods should reach of AdaLin's ratio."""
Epoch = Callable[[], object]


def measure() -> Iterator[Result]:
    with one_thread():
        digits = load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255
        # As fast as on real images: their number and size decide, not what is on them.
        colours = torch.rand(IMAGES, 3_072)
        yield from _against_all("random-label MNIST", digits, "SGD", by_isa(13, 8.5), by_isa(1.6, 1.1))
        yield from _against_all("random-label CIFAR-10", colours, "SGD", by_isa(20, 13), by_isa(1.6, 1.1))
        yield from _against_all("random-label MNIST, Adam", digits, "Adam", by_isa(10, 6.5), by_isa(1.6, 1.1))
        yield from _methods(digits)
        yield from _python_parts(digits)
        yield from _cnn()
        yield from _resnet()


# ---- Ours ----------------------------------------------------------------------------------------------------------


def our_epoch(
    model: nn.Module, data: Task, learning: Learning, *, optimizer: str = "SGD", by_outputs: bool = True
) -> Epoch:
    """An epoch as the laboratory makes it; `by_outputs`: with the images' products, where they can be used."""
    moves = {"SGD": SGD(), "Adam": Adam()}[optimizer]

    def gram() -> Gram | None:
        return Gram.of(data.floats(data.inputs).flatten(1)) if by_outputs else None

    learner = Learner(make_net(model), moves, learning, gram=gram)
    count = len(data.inputs)
    learner.start_task(0, data, 10**9)

    def epoch() -> None:
        order, step = torch.randperm(count), 0
        while step < -(-count // learning.batch_size):
            step += len(learner.train(order[step * learning.batch_size :], step))

    return epoch


def our_perceptron(
    images: Tensor,
    method: str,
    *,
    optimizer: str = "SGD",
    rules: tuple[Rule, ...] = (),
    activation: Callable[[int], nn.Module] | None = None,
    by_outputs: bool = True,
) -> Epoch:
    """An epoch of a method; its activation may be a user's own."""
    parsed = Method.parse(method)
    learning = Learning(lr=LR[optimizer], batch_size=BATCH, rules=(*parsed.rules, *rules))
    data = Task(images, torch.randint(10, (len(images),)))
    if activation is None:
        model = make_model("mlp", (images.shape[1],), 10, parsed.activation)
    else:
        model = plain.perceptron(images.shape[1], activation)
    return our_epoch(model, data, learning, optimizer=optimizer, by_outputs=by_outputs)


# ---- Against plain loops and JAX -----------------------------------------------------------------------------------


def _against_all(name: str, images: Tensor, optimizer: str, bar: float, bar_of_jax: float) -> Iterator[Result]:
    labels, inputs = torch.randint(10, (len(images),)), images.shape[1]

    def model() -> nn.Module:
        return plain.perceptron(inputs, plain.PlainAdaLin)

    subjects: dict[str, Epoch] = {
        "plain loop": plain.plain_epoch(model(), images, labels, batch=BATCH, optimizer=optimizer),
        "plain loop, fused": plain.plain_epoch(model(), images, labels, batch=BATCH, optimizer=optimizer, fused=True),
        "lean loop": plain.lean_epoch(
            plain.perceptron(inputs, nn.PReLU), images, labels, batch=BATCH, optimizer=optimizer
        ),
        "ours": our_perceptron(images, "adalin", optimizer=optimizer),
    }
    if optimizer == "SGD":
        subjects["ours, by weights"] = our_perceptron(images, "adalin", by_outputs=False)
    runs = dict.fromkeys(subjects, 1)
    no_jax = missing_rival("jax", "optax")
    if not no_jax:
        from benchmarks import jax_mlp

        for form in jax_mlp.FORMS:
            subjects[f"JAX, {form}"] = jax_mlp.epoch(form, images.numpy(), batch=BATCH, optimizer=optimizer)
            runs[f"JAX, {form}"] = jax_mlp.runs_of(form)
    times = in_turns(subjects, rounds=8, calls=3)
    for subject, own in times.items():
        yield noted(f"{name}: {subject}, fastest", runs[subject] * STEPS / min(own), "steps/s")
    yield from _peak_share(name, inputs, times)
    yield from _faster(name, ratio(times, "plain loop", "ours"), bar)
    if optimizer == "Adam":
        fused = ratio(times, "plain loop, fused", "ours").fastest
        yield at_least(by_isa(6, 4), f"{name}, fastest epoch", fused, "x fused loop")
    if no_jax:
        yield skipped(bar_of_jax, f"{name}, fastest epoch", "x JAX's best", no_jax)
        return
    best = min(min(times[f"JAX, {form}"]) / jax_mlp.runs_of(form) for form in jax_mlp.FORMS)
    yield at_least(bar_of_jax, f"{name}, fastest epoch", best / min(times["ours"]), "x JAX's best")


def _peak_share(name: str, inputs: int, times: Times) -> Iterator[Result]:
    """Share of what the processor could multiply, where it trains by weights: two products of the first layer, three
    of each other one."""
    peak, subject = multiply_adds_per_second(), "ours, by weights" if "ours, by weights" in times else "ours"
    if peak is not None:
        products = BATCH * (2 * inputs * 100 + 3 * (100 * 100 + 100 * 10))
        yield noted(f"{name}: {subject}, share of the peak", STEPS * products / min(times[subject]) / peak, "")


def _faster(name: str, of_plain: Ratio, bar: float) -> Iterator[Result]:
    yield at_least(bar, f"{name}, fastest epoch", of_plain.fastest, "x plain loop")
    yield at_least(bar, f"{name}, median epoch", of_plain.median, "x plain loop")


# ---- Other methods, each against a plain loop of its own -----------------------------------------------------------


@dataclass(frozen=True)
class PlainMethod:
    """A method as one would write it."""

    activation: Callable[[int], nn.Module]
    expansion: int = 1
    weight_decay: float = 0.0
    noise: float = 0.0


METHODS = {
    "adalin": PlainMethod(plain.PlainAdaLin),
    "baseline": PlainMethod(plain.relu),
    "tanh": PlainMethod(plain.tanh),
    "adalin-tanh": PlainMethod(plain.PlainAdaLinTanh),
    "crelu": PlainMethod(plain.PlainCReLU, expansion=2),
    "fourier": PlainMethod(plain.PlainFourier, expansion=2),
    "l2": PlainMethod(plain.relu, weight_decay=1e-2),
    "shrink-perturb": PlainMethod(plain.relu, noise=1e-2),
}


def _methods(images: Tensor) -> Iterator[Result]:
    labels, of_adalin = torch.randint(10, (len(images),)), 0.0
    for method, own in METHODS.items():
        fresh = _fresh(images.shape[1], own)
        after_step = plain.shrink_and_perturb(fresh, shrink=0.9999, noise=own.noise) if own.noise else None
        subjects = {
            "plain": plain.plain_epoch(
                fresh(), images, labels, batch=BATCH, weight_decay=own.weight_decay, after_step=after_step
            ),
            "ours": our_perceptron(images, method),
        }
        faster = side_by_side(subjects, "ours", rounds=5, calls=3)["plain"].fastest
        of_adalin = of_adalin or faster
        bar = round(SHARE_OF_ADALINS * of_adalin, 1)
        yield at_least(bar, f"random-label MNIST, {method}, fastest epoch", faster, "x its plain loop")


def _fresh(inputs: int, own: PlainMethod) -> Callable[[], nn.Module]:
    return lambda: plain.perceptron(inputs, own.activation, expansion=own.expansion)


# ---- What is a user's own, in Python, in every step ----------------------------------------------------------------


@dataclass(frozen=True)
class Clipped(Rule):
    """Three operations on all weights after each step: L1 decay, within bounds."""

    name = "clipped"

    def after_step(self, net: Network, now: object) -> None:
        for part in net.weights:
            part.value.sub_(part.value.sign(), alpha=1e-6).clamp_(-2, 2)


@torch.no_grad()
def _clip(model: nn.Module) -> None:
    for own in model.parameters():
        own.sub_(own.sign(), alpha=1e-6).clamp_(-2, 2)


class Wave(nn.Module):
    """An activation that nobody knows."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.5 * x)


def _python_parts(images: Tensor) -> Iterator[Result]:
    labels, inputs = torch.randint(10, (len(images),)), images.shape[1]
    ours = {
        "a rule": our_perceptron(images, "adalin", rules=(Clipped(),)),
        "an activation": our_perceptron(images, "baseline", activation=Wave),
    }
    loops = {
        "a rule": plain.plain_epoch(
            plain.perceptron(inputs, plain.PlainAdaLin), images, labels, batch=BATCH, after_step=_clip
        ),
        "an activation": plain.plain_epoch(plain.perceptron(inputs, Wave), images, labels, batch=BATCH),
    }
    for part, own in ours.items():
        faster = side_by_side({"plain": loops[part], "ours": own}, "ours", rounds=5, calls=3)["plain"]
        yield from _faster(f"random-label MNIST, {part} in Python in each step", faster, 4)


# ---- Images --------------------------------------------------------------------------------------------------------


def _cnn() -> Iterator[Result]:
    images, labels = torch.rand(320, 3, 32, 32), torch.randint(100, (320,))
    activation = Method.parse("adalin").activation
    learning = Learning(lr=LR["SGD"], batch_size=BATCH)
    ours = our_epoch(make_model("cnn", (3, 32, 32), 100, activation), Task(images, labels), learning)
    model = make_model("cnn", (3, 32, 32), 100, activation)
    for index, width in ((1, 16), (4, 16), (8, 64)):
        model[index] = plain.PlainAdaLin(width)  # type: ignore[operator]
    subjects = {"plain": plain.plain_epoch(model, images, labels, batch=BATCH), "ours": ours}
    faster = side_by_side(subjects, "ours", rounds=5, calls=3)["plain"]
    yield from _faster("class-split CNN", faster, by_isa(3.8, 2.5))


def _resnet() -> Iterator[Result]:
    """The narrow network, with the batches and the clipping of class-incremental CIFAR-100."""
    pixels, labels = torch.randint(256, (500, 3, 32, 32), dtype=torch.uint8), torch.randint(100, (500,))
    activation, learning = Method.parse("adalin").activation, Learning(lr=1e-3, batch_size=250, clip=0.5)
    data = Task(pixels, labels, scale=Scaling("cifar100", "unit"))
    ours = our_epoch(make_model("resnet18-narrow", (3, 32, 32), 100, activation), data, learning)
    model = make_model("resnet18-narrow", (3, 32, 32), 100, activation)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, AdaLin):
                setattr(module, name, plain.PlainAdaLin(child.alpha.numel()))
    loop = plain.plain_epoch(model, pixels / 255, labels, batch=250, clip=0.5)
    faster = side_by_side({"plain": loop, "ours": ours}, "ours", rounds=3, calls=3)["plain"]
    yield from _faster("narrow ResNet-18", faster, 1.7)
