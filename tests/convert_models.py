"""Models of every kind that convert meets, with inputs and the sites it must find."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout2d(0.2)
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(54, 7), nn.BatchNorm1d(7), nn.ELU(0.5), nn.Linear(7, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class BasicBlock(nn.Module):
    """torchvision's: one ReLU called twice."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(BasicBlock(3, 4), BasicBlock(4, 4))
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.layers(x), 1), 1))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc1 = nn.Linear(4, 5)
        self.fc2 = nn.Linear(5, 6)
        self.fc3 = nn.Linear(6, 7)
        self.fc4 = nn.Linear(7, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x), inplace=True).mean((2, 3))
        x = self.fc1(x).relu_()
        x = F.gelu(self.fc2(x), approximate="tanh")
        x = F.dropout(F.leaky_relu(self.fc3(x), 0.2), 0.5, training=self.training)
        x = torch.tanh(self.fc4(x))
        return self.out(x)


class Modal(nn.Module):
    """Python decides by mode, by optional argument, and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, double: bool = False, scale: float = 1.0) -> Tensor:
        for layer in self.layers:
            x = F.silu(layer(x))
            if self.training:
                x = x + 0.1 * torch.rand_like(x)
        if mask is not None:
            x = x * mask
        return self.head(2 * x if double else x) * scale


class PreNormBlock(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.reduce, self.expand = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)
        self.act, self.gate = nn.SiLU(), nn.Sigmoid()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))
        return self.fc(x.mean((2, 3)))


class Shared(nn.Module):
    """One activation object in three places."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.Tanh()
        self.first = nn.Sequential(nn.Linear(4, 5), act, nn.Linear(5, 6), act)
        self.act = act
        self.second = nn.Linear(6, 7)
        self.out = nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.act(self.second(self.first(x))))


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 5), nn.Linear(5, 6), nn.Linear(6, 2)
        self.activation = F.relu
        self.smooth = functools.partial(F.gelu, approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(self.smooth(self.fc2(self.activation(self.fc1(x)))))


class InPlace(nn.Module):
    """Statements whose result is in their argument."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.act = nn.Linear(4, 5), nn.Linear(5, 5), nn.ReLU(inplace=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        F.relu_(x)
        x = self.fc2(x)
        y = self.act(x)
        return self.out(x + y)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))


def images() -> Tensor:
    return torch.randn(4, 3, 8, 8)


def vectors() -> Tensor:
    return torch.randn(4, 4)


def sequences() -> Tensor:
    return torch.randn(4, 3, 8)


# model, input, and for each site its base, width and axis
MODELS = {
    "mlp": (mlp, vectors, [("relu", 5, -1), ("tanh", 6, -1)]),
    "cnn": (ConvNet, images, [("relu", 6, -3), ("elu", 7, -1)]),
    "resnet": (ResNet, images, [("relu", 4, -3)] * 4),
    "functional": (
        Functional,
        images,
        [("relu", 4, -3), ("relu", 5, -1), ("gelu", 6, -1), ("leaky_relu", 7, -1), ("tanh", 8, -1)],
    ),
    "modal": (Modal, vectors, [("silu", 4, -1)] * 3),
    "transformer": (PreNormBlock, sequences, [("gelu", 16, -1)]),
    "squeeze-excite": (SqueezeExcite, images, [("silu", 2, -3)]),
    "shared": (Shared, vectors, [("tanh", 7, -1), ("tanh", 5, -1), ("tanh", 6, -1)]),
    "attribute": (Attribute, vectors, [("relu", 5, -1), ("gelu", 6, -1)]),
    "in place": (InPlace, vectors, [("relu", 5, -1), ("relu", 5, -1)]),
}


dynamo_noise = pytest.mark.filterwarnings("ignore:.*(should not be instantiated|torch.jit.script)")


every_model = pytest.mark.parametrize(("make", "inputs", "expected"), MODELS.values(), ids=MODELS.keys())


def run(model: nn.Module, *args: Tensor, **kwargs: object) -> Tensor:
    torch.manual_seed(7)
    output: Tensor = model(*(argument.clone() for argument in args), **kwargs)
    return output


def assert_same(original: nn.Module, converted: nn.Module, x: Tensor, **kwargs: object) -> None:
    """In train mode, in eval mode, and in train mode again, with equal buffers at the end."""
    original = copy.deepcopy(original)
    for training in (True, False, True):
        original.train(training)
        converted.train(training)
        assert torch.equal(run(original, x, **kwargs), run(converted, x, **kwargs))
    buffers = dict(converted.named_buffers())
    assert all(torch.equal(buffers[name], buffer) for name, buffer in original.named_buffers())
