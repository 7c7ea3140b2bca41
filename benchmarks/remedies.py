"""Methods with remedies under Adam against the lean loop of the same method, and what `attach` costs somebody's loop.

MLP 784-100-100-10, ReLU, batches of 16 from 1,200 images. The lean loop indexes tensors directly and has torch's fused
optimiser; remedies in it are written as their authors have them.
"""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import adalin
from adalin.data import BUNDLED, load
from adalin.methods import ContinualBackprop, ReDo
from benchmarks import plain
from benchmarks._measure import Result, at_least, at_most, one_thread, side_by_side
from benchmarks.training import BATCH, IMAGES, our_perceptron

BARS = {
    "adam": 6.0,
    "adam+layernorm": 5.0,
    "adam+redo": 6.0,
    "adam+cbp": 5.0,
    "adam+l2-init": 5.0,
    "adam+shrink-perturb": 6.0,
}
ATTACHED_CBP, ATTACHED_REDO = 1.30, 1.05
"""Largest costs of a step with rules attached, in steps without."""


def measure() -> Iterator[Result]:
    with one_thread():
        images = load("mnist", BUNDLED).train_images[:IMAGES].flatten(1) / 255
        labels = torch.randint(10, (len(images),))
        for method, bar in BARS.items():
            subjects = {
                "lean": lean_epoch(images, labels, method),
                "ours": our_perceptron(images, method.removeprefix("adam+").replace("adam", "relu"), optimizer="Adam"),
            }
            faster = side_by_side(subjects, "ours", rounds=4, calls=2)["lean"]
            yield at_least(bar, f"{method}, fastest epoch", faster.fastest, "x its lean loop")
        yield from _attached(images, labels)


def _attached(images: Tensor, labels: Tensor) -> Iterator[Result]:
    subjects = {"without": free_epoch(images, labels), "with": free_epoch(images, labels, cbp=True)}
    cost = side_by_side(subjects, "without", rounds=4, calls=2)["with"]
    yield at_most(ATTACHED_CBP, "attached CBP on an MLP, fastest epoch", cost.fastest, "x the loop without")
    pixels = torch.rand(4, 3, 32, 32)
    steps = {"without": resnet_step(pixels), "with": resnet_step(pixels, redo=True)}
    cost = side_by_side(steps, "without", rounds=4, calls=3)["with"]
    yield at_most(ATTACHED_REDO, "attached ReDo on a ResNet-18, fastest step", cost.fastest, "x the step without")


def free_epoch(images: Tensor, labels: Tensor, *, cbp: bool = False) -> Callable[[], object]:
    """A user's own epoch, with continual backprop attached or not."""
    model = plain.perceptron(images.shape[1], plain.relu)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if cbp:
        adalin.attach(model, optimizer, ContinualBackprop(), example=images[:2])

    def epoch() -> None:
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()

    return epoch


def resnet_step(pixels: Tensor, *, redo: bool = False) -> Callable[[], object]:
    """A step of the full ResNet-18, with ReDo attached or not."""
    from adalin.methods import Activation
    from adalin.models import make_model

    model = make_model("resnet18", (3, 32, 32), 10, Activation())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    if redo:
        adalin.attach(model, optimizer, ReDo(every=1000), example=pixels[:2])

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(pixels), torch.arange(len(pixels))).backward()
        optimizer.step()

    return step


def lean_epoch(images: Tensor, labels: Tensor, method: str) -> Callable[[], object]:
    """The lean loop with a remedy in it."""
    linears = [nn.Linear(images.shape[1], 100), nn.Linear(100, 100), nn.Linear(100, 10)]
    norms: list[nn.Module] = [nn.LayerNorm(100) if "layernorm" in method else nn.Identity() for _ in range(2)]
    model = nn.ModuleList([*linears, *norms])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    first = [own.detach().clone() for own in model.parameters()]
    replace = LeanContinualBackprop(linears, optimizer) if "cbp" in method else None

    def epoch() -> float:
        correct = torch.zeros((), dtype=torch.int64)
        for rows in torch.randperm(len(images)).split(BATCH):
            x, hidden = images[rows], []
            for linear, norm in zip(linears, norms, strict=False):
                x = F.relu(norm(linear(x)))
                hidden.append(x.detach())
            logits = linears[-1](x)
            correct += (logits.detach().argmax(1) == labels[rows]).sum()
            loss = F.cross_entropy(logits, labels[rows])
            if "l2-init" in method:
                away = [(own - start).square().sum() for own, start in zip(model.parameters(), first, strict=True)]
                loss = loss + 0.005 * torch.stack(away).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if replace is not None:
                replace(hidden)
            if "shrink-perturb" in method:
                fresh = [nn.Linear(own.in_features, own.out_features) for own in linears]
                with torch.no_grad():
                    for own, new in zip(linears, fresh, strict=True):
                        own.weight.mul_(0.9999).add_(new.weight, alpha=0.01)
                        own.bias.mul_(0.9999).add_(new.bias, alpha=0.01)
        return correct.item()

    return epoch


class LeanContinualBackprop:
    """Contribution utility, rate 1e-4, maturity 100, fractions that add up."""

    def __init__(self, linears: list[nn.Linear], optimizer: torch.optim.Optimizer) -> None:
        self._linears, self._optimizer = linears, optimizer
        self._utility = [torch.zeros(100) for _ in range(2)]
        self._age = [torch.zeros(100) for _ in range(2)]
        self._due = [0.0, 0.0]

    @torch.no_grad()
    def __call__(self, hidden: list[Tensor]) -> None:
        for layer, features in enumerate(hidden):
            into, out = self._linears[layer], self._linears[layer + 1]
            age, utility = self._age[layer], self._utility[layer]
            age += 1
            utility.mul_(0.99).add_(out.weight.abs().mean(0) * features.abs().mean(0), alpha=0.01)
            corrected = utility / (1 - 0.99**age)
            mature = torch.where(age > 100)[0]
            self._due[layer] += 1e-4 * len(mature)
            count = int(self._due[layer])
            if count == 0:
                continue
            self._due[layer] -= count
            units = mature[torch.topk(-corrected[mature], count)[1]]
            bound = math.sqrt(6 / into.in_features)
            into.weight[units] = torch.empty(count, into.in_features).uniform_(-bound, bound)
            into.bias[units], out.weight[:, units] = 0.0, 0.0
            age[units], utility[units] = 0.0, 0.0
            for moment in ("exp_avg", "exp_avg_sq"):
                self._optimizer.state[into.weight][moment][units] = 0.0
                self._optimizer.state[into.bias][moment][units] = 0.0
                self._optimizer.state[out.weight][moment][:, units] = 0.0
