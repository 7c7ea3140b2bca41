"""A look at a network that its training does not notice."""

import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module, device: torch.device, *, training: bool | None = False) -> Iterator[None]:
    """Uncompiled; afterwards modes, buffers and the random states of torch, NumPy and Python are as before.

    `training` is the mode of all modules inside, eval by default; None leaves each in its own. Parameters and their
    gradients are whoever's who is inside. Generators that a model keeps for itself are not known.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    python = random.getstate()
    library = sys.modules.get("numpy")
    numpy = None if library is None else library.random.get_state()
    fork = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    with fork, _uncompiled():
        try:
            if training is not None:
                model.train(training)
            yield
        finally:
            for module, training in modes:
                module.training = training
            for buffer, before in buffers:
                # Only what has changed is written: a backward pass that is still to come may have kept the rest.
                if not torch.equal(buffer, before):
                    with torch.no_grad():
                        buffer.copy_(before)
            random.setstate(python)
            if library is not None:
                library.random.set_state(numpy)


def _uncompiled() -> AbstractContextManager[object]:
    """Hooks have no effect on what is compiled already. Where nothing can be, the compiler's import takes a second."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
