"""Small networks in float64, and what the metrics must say of them: numpy and scalars, from the formulas alone."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from adalin import activations, make_activation

GELU_LIPSCHITZ = 1.1289042119


def _cdf(z):
    return 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))


PHI = {
    "relu": lambda z: np.where(z > 0, z, 0.0),
    "tanh": np.tanh,
    "gelu": lambda z: z * _cdf(z),
    "linear": lambda z: z,
    "crelu": lambda z: np.concatenate([np.maximum(z, 0), np.maximum(-z, 0)], 1),
    "fourier": lambda z: np.concatenate([np.sin(z), np.cos(z)], 1),
}
SLOPE = {
    "relu": lambda z: z > 0,
    "tanh": lambda z: 1 - np.tanh(z) ** 2,
    "gelu": lambda z: np.abs(_cdf(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)) / GELU_LIPSCHITZ,
    "linear": np.ones_like,
}
NAMES = [*PHI, "adalin-relu", "adalin-tanh", "adalin-gelu", "interpolation"]


def mlp(name, dtype=torch.float64):
    wide = activations()[name].expansion
    model = nn.Sequential(
        *(nn.Linear(6, 5), make_activation(name, 5)),
        *(nn.Linear(5 * wide, 4), make_activation(name, 4)),
        nn.Linear(4 * wide, 3),
    )
    return model.to(dtype), torch.randn(30, 6, dtype=dtype), torch.randint(3, (30,))


def cnn(name, dtype=torch.float64):
    wide = activations()[name].expansion
    model = nn.Sequential(
        *(nn.Conv2d(2, 3, 3), make_activation(name, 3), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(3 * wide * 4, 4), make_activation(name, 4)),
        nn.Linear(4 * wide, 3),
    )
    return model.to(dtype), torch.randn(30, 2, 6, 6, dtype=dtype), torch.randint(3, (30,))


@dataclass
class Oracle:
    """Runs an `nn.Sequential` of the kind above by itself."""

    name: str
    model: nn.Sequential
    inputs: torch.Tensor
    labels: torch.Tensor

    def __post_init__(self):
        self.parameters = {name: p.detach().numpy().copy() for name, p in self.model.named_parameters()}

    def run(self):
        """The pre-activations, gates and outputs of the hidden layers, and the logits."""
        hidden, x = [], self.inputs.numpy()
        for index, module in enumerate(self.model):
            weight, bias = (self.parameters.get(f"{index}.{key}") for key in ("weight", "bias"))
            if isinstance(module, nn.Linear):
                x = x @ weight.T + bias
            elif isinstance(module, nn.Conv2d):
                windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
                x = np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]
            elif isinstance(module, nn.MaxPool2d):
                n, c, h, w = x.shape
                x = x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
            elif isinstance(module, nn.Flatten):
                x = x.reshape(len(x), -1)
            else:
                before, gate, x = (x, *self._activate(index, x))
                hidden.append((before, gate, x))
        return hidden, x

    def _activate(self, index, z):
        base = self.name.removeprefix("adalin-").replace("interpolation", "relu")
        y = PHI[base](z)
        gate = np.cos(math.pi / 2 * SLOPE[base](z)) if base in SLOPE else None
        alpha = self.parameters.get(f"{index}.alpha")
        if alpha is not None:
            alpha = alpha.reshape(-1, *[1] * (z.ndim - 2))
            if self.name == "interpolation":
                share = 1 / (1 + np.exp(-alpha))
                y = share * z + (1 - share) * y
            else:
                y = y + alpha * z * gate
        return gate, y

    @cached_property
    def hidden(self):
        """Per layer: pre-activations and gates as (units, data), outputs as (outputs, data)."""
        by_neuron = [
            [a if a is None else np.moveaxis(a, 1, 0).reshape(a.shape[1], -1) for a in h] for h in self.run()[0]
        ]
        return [tuple(layer) for layer in by_neuron]

    @property
    def features(self):
        return self.run()[0][-1][2]

    @property
    def loss(self):
        logits = self.run()[1]
        return float(
            np.mean([math.log(sum(math.exp(v) for v in z)) - z[y] for z, y in zip(logits, self.labels, strict=True)])
        )

    def gradient(self, step=1e-6):
        """By central differences, parameter by parameter."""
        result = {}
        for name, values in self.parameters.items():
            result[name] = np.zeros_like(values)
            for index in np.ndindex(values.shape):
                kept = values[index]
                values[index] = kept + step
                above = self.loss
                values[index] = kept - step
                result[name][index] = (above - self.loss) / (2 * step)
                values[index] = kept
        return result
