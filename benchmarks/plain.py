"""Training as most people write it, and as those do who have looked for what is slow."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

LR = {"SGD": 1e-2, "Adam": 1e-3}
AfterStep = Callable[[nn.Module], None]


class PlainAdaLin(nn.Module):
    """Equation 2 on ReLU, as one would write it down."""

    def __init__(self, width: int, dim: int = 1) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.cos(torch.pi / 2 * (x > 0).to(x.dtype)).detach()
        alpha = self.alpha.view(1, -1, *[1] * (x.dim() - 2))
        return F.relu(x) + alpha * x * gate


class PlainAdaLinTanh(nn.Module):
    """Equation 2 on tanh."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x)
        return y + self.alpha * x * torch.cos(torch.pi / 2 * (1 - y * y)).detach()


class PlainCReLU(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((F.relu(x), F.relu(-x)), 1)


class PlainFourier(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((torch.sin(x), torch.cos(x)), 1)


def relu(width: int) -> nn.Module:
    return nn.ReLU()


def tanh(width: int) -> nn.Module:
    return nn.Tanh()


def perceptron(inputs: int, activation: Callable[[int], nn.Module], *, expansion: int = 1) -> nn.Sequential:
    """Inputs, 100, 100, 10."""
    return nn.Sequential(
        nn.Linear(inputs, 100),
        activation(100),
        nn.Linear(100 * expansion, 100),
        activation(100),
        nn.Linear(100 * expansion, 10),
    )


def plain_epoch(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    batch: int,
    optimizer: str = "SGD",
    clip: float | None = None,
    weight_decay: float = 0.0,
    fused: bool | None = None,
    after_step: AfterStep | None = None,
) -> Callable[[], object]:
    """A DataLoader, zero_grad, forward, cross_entropy, backward, step, .item()."""
    loader = DataLoader(TensorDataset(images, labels), batch_size=batch, shuffle=True)
    make = getattr(torch.optim, optimizer)
    moves = make(model.parameters(), lr=LR[optimizer], weight_decay=weight_decay, fused=fused)

    def epoch() -> float:
        accuracy = 0.0
        for x, y in loader:
            logits = model(x)
            accuracy += (logits.argmax(1) == y).float().mean().item()
            loss = F.cross_entropy(logits, y)
            moves.zero_grad()
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            moves.step()
            if after_step is not None:
                after_step(model)
        return accuracy

    return epoch


def lean_epoch(
    model: nn.Module, images: Tensor, labels: Tensor, *, batch: int, optimizer: str = "SGD"
) -> Callable[[], object]:
    """Tensors indexed directly, the fused optimiser, no number taken out of a tensor before the end."""
    moves = getattr(torch.optim, optimizer)(model.parameters(), lr=LR[optimizer], fused=True)

    def epoch() -> float:
        correct = torch.zeros((), dtype=torch.int64)
        for rows in torch.randperm(len(images)).split(batch):
            x, y = images[rows], labels[rows]
            logits = model(x)
            correct += (logits.detach().argmax(1) == y).sum()
            loss = F.cross_entropy(logits, y)
            moves.zero_grad()
            loss.backward()
            moves.step()
        return correct.item()

    return epoch


def shrink_and_perturb(fresh: Callable[[], nn.Module], *, shrink: float, noise: float) -> AfterStep:
    """After each step, with a newly initialised network."""

    @torch.no_grad()
    def after_step(model: nn.Module) -> None:
        for own, new in zip(model.parameters(), fresh().parameters(), strict=True):
            own.mul_(shrink).add_(new, alpha=noise)

    return after_step
