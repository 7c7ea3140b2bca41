"""What a metric may look at: a network and the data of its task."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.metrics._recorder import Layer, Recorder
from adalin.structure import undisturbed

Forward = Callable[[Tensor], Tensor]
Backward = Callable[[Tensor], Mapping[str, Tensor]]
NEEDS = frozenset({"inputs", "units", "weights", "labels", "gradient", "test", "online"})
"""What metrics may look at: inputs and what the network makes of them, statistics of hidden units, weights; and, of a
task with labels, the labels, the loss's gradient, the test set, and what training counted.
"""
TEST_CHUNK = 256
"""Test inputs that pass at once: so few stay in the cache from pixels to outputs."""
_WITHOUT_LABELS = frozenset({"inputs", "units", "weights"})


class NetworkOnData:
    """One network and the data of one task.

    Everything is computed when it is first asked for, in eval mode and in chunks, and then kept: make a new one after
    the network has changed. Parameters, their gradients, the training mode and the random state stay as they are.

    Args:
        model: the network; its output are logits.
        inputs: inputs of the task's training data. With a very large task, a subset bounds the cost.
        labels: labels of the inputs; without them, metrics that need labels are left out.
        test: inputs and labels of the test set, if there is one.
        online_accuracy: what training counted.
        scale: what makes floats of the test inputs, where these are pixels; it gets one chunk after the other.
        predict: what gives the network's outputs for a batch faster than the network itself, if there is something.
        passes: what computes the network's outputs for a batch and calls the modules of its activations, and what then
            gives all gradients for the outputs' one, where there is something faster than the network and autograd.
        chunk: number of inputs that pass at once, which bounds the memory.

    Examples:
        >>> import torch
        >>> from adalin.metrics import NetworkOnData, measure
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> network = NetworkOnData(model, torch.randn(32, 4), torch.zeros(32, dtype=torch.long))
        >>> [(layer.name, layer.positive.shape) for layer in network.layers]
        [('1', torch.Size([8]))]
        >>> sorted(measure(network, ["loss", "srank"]))
        ['loss', 'srank']
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Tensor | None = None,
        *,
        test: tuple[Tensor, Tensor] | None = None,
        online_accuracy: float | None = None,
        scale: Callable[[Tensor], Tensor] | None = None,
        predict: Callable[[Tensor], Tensor] | None = None,
        passes: tuple[Forward, Backward] | None = None,
        chunk: int = 512,
    ) -> None:
        if labels is None and (test is not None or online_accuracy is not None):
            raise ValueError("without labels there is neither a test set nor an accuracy")
        if len(inputs) == 0:
            raise ValueError("metrics need one label per input and at least one, not 0 and 0")
        for x, y in ((inputs, labels), test or (inputs, labels)):
            if y is not None and (len(x) != len(y) or len(x) == 0):
                raise ValueError(f"metrics need one label per input and at least one, not {len(x)} and {len(y)}")
        self.model: nn.Module = getattr(model, "_orig_mod", model)  # a compiled network, by the names it had before
        self.inputs = inputs
        self.labels = labels
        self.test = None if test is None else (test[0], test[1].cpu())  # where test_logits are
        self.online_accuracy = online_accuracy
        self.chunk = chunk
        self._scale, self._predict = scale, predict or self.model
        self._forward: Forward = self.model if passes is None else passes[0]
        self._backward: Backward | None = None if passes is None else passes[1]

    @property
    def gives(self) -> frozenset[str]:
        """Parts that metrics may need. A task with labels may lack a test set: its metrics are None then."""
        return _WITHOUT_LABELS if self.labels is None else NEEDS

    @property
    def layers(self) -> list[Layer]:
        """The hidden layers in the order in which they are first called."""
        return self._seen.layers

    @property
    def features(self) -> Tensor | None:
        """(N, d): the flattened output of the last hidden activation; None without any."""
        return self._seen.features

    @property
    def logits(self) -> Tensor:
        """(N, classes): the network's output on the training data."""
        return self._seen.logits

    @cached_property
    def accuracy(self) -> float:
        """Accuracy on the training data."""
        return _accuracy(self.logits, self._known_labels)

    @cached_property
    def loss(self) -> float:
        """Mean cross-entropy on the training data."""
        return F.cross_entropy(self.logits.double(), self._known_labels).item()

    @cached_property
    def test_logits(self) -> Tensor | None:
        """(N, classes): the network's output on the test set; None without one."""
        if self.test is None:
            return None
        device = self.inputs.device
        with torch.no_grad(), undisturbed(self.model, device):
            chunks = self.test[0].split(min(self.chunk, TEST_CHUNK))
            floats = chunks if self._scale is None else map(self._scale, chunks)
            return torch.cat([self._predict(x.to(device)).cpu() for x in floats])

    @property
    def test_accuracy(self) -> float | None:
        """Accuracy on the test set; None without one."""
        return None if self.test is None or self.test_logits is None else _accuracy(self.test_logits, self.test[1])

    @cached_property
    def gradient(self) -> dict[str, Tensor]:
        """The gradient of the mean cross-entropy over all the inputs, for every parameter that is trained."""
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not trained:
            return {}
        labels, total = self._known_labels.split(self.chunk), {name: torch.zeros_like(p) for name, p in trained.items()}

        def add(chunk: int, logits: Tensor) -> None:
            if self._backward is not None:
                grad = logits.softmax(1)
                grad[torch.arange(len(grad)), labels[chunk]] -= 1
                named = self._backward(grad / len(self.inputs))
                gradients = [named[name] for name in total]
            else:
                loss = F.cross_entropy(logits, labels[chunk], reduction="sum") / len(self.inputs)
                gradients = list(torch.autograd.grad(loss, list(trained.values()), materialize_grads=True))
            torch._foreach_add_(list(total.values()), gradients)

        with torch.enable_grad():
            self._seen = self._look(add)  # one pass serves both
        return total

    def compute_gradient(self) -> None:
        """Do it first where it will be asked for: the statistics of hidden units come from the same pass."""
        _ = self.gradient

    @property
    def _known_labels(self) -> Tensor:
        if self.labels is None:
            raise ValueError("no labels are known")
        return self.labels

    @cached_property
    def _seen(self) -> "_Seen":
        with torch.no_grad():
            return self._look(lambda chunk, logits: None)

    def _look(self, visit: Callable[[int, Tensor], None]) -> "_Seen":
        """One pass over the training data; the visitor gets each chunk's number and outputs."""
        features, logits = [], []
        with undisturbed(self.model, self.inputs.device), Recorder(self.model, self._forward) as recorder:
            for chunk, x in enumerate(self.inputs.split(self.chunk)):
                outputs = recorder(x)
                visit(chunk, outputs)
                logits.append(outputs.detach())
                if recorder.last is not None:
                    features.append(recorder.last.flatten(1))
        return _Seen(recorder.layers(), torch.cat(features) if features else None, torch.cat(logits))


class _Seen(NamedTuple):
    """Results of one pass over the training data."""

    layers: list[Layer]
    features: Tensor | None
    logits: Tensor


def norm(tensors: Iterable[Tensor]) -> float:
    """The L2 norm of some tensors taken as one vector, in float64."""
    norms = [torch.linalg.vector_norm(tensor, dtype=torch.float64) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).double().mean().item()
