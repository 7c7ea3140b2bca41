"""Post hoc: what can be said of a network without having seen it train."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from adalin.metrics import undisturbed
from adalin.monitor._inputs import Call, call_of, kept, outputs_of
from adalin.monitor._look import Look, device_of, gradient_norms, gradients_of, healths, sketch_of, weights_of
from adalin.monitor._probe import probe_calls
from adalin.monitor._twins import State, Twins
from adalin.monitor._verdict import Diagnosis, diagnose

SAMPLES = 256
"""Inputs of a look."""


def examine(
    model: nn.Module,
    inputs: Any,
    *,
    fresh: Callable[[], nn.Module] | None = None,
    labels: torch.Tensor | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Can the weights of a checkpoint still learn? One look and one probe, beside a fresh twin.

    Args:
        model: any network.
        inputs: a batch of its own inputs as the model takes it; a tuple stands for several arguments, a dict for
            keyword arguments. 128 are enough.
        fresh: builds a new network; without it the modules' `reset_parameters` draw fresh weights.
        labels: classes of the inputs, for units that get no gradient; without them the gradient of random signs of the
            outputs is taken.
        draws: draws of the probe, as in `adalin.probe`.
        seed: seed of everything that is drawn.

    Examples:
        >>> import torch
        >>> build = lambda: torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        >>> examine(build(), torch.randn(64, 8), fresh=build).state in ("able", "unclear")
        True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, not {type(model).__name__}")
    whole = call_of(inputs)
    call = kept(whole, SAMPLES)
    if labels is not None:
        if whole.size != len(labels):
            raise ValueError(f"labels must be one per input, not {len(labels)} for {whole.size} inputs")
        labels = labels if len(labels) <= SAMPLES else labels[torch.arange(SAMPLES) * len(labels) // SAMPLES]
    try:
        twins = Twins(model, fresh)
        with undisturbed(model, device_of(model)):
            torch.manual_seed(seed)
            twin = twins.draw(torch.Generator().manual_seed(seed))
        result, why, first = probe_calls(model, [call], twins=twins, draws=draws, seed=seed), "", None
        first = look_at(twin, [call], labels=labels, seed=seed)
    except ValueError as error:
        result, why, first = None, str(error), None
    look = look_at(model, [call], labels=labels, seed=seed, first=first)
    return diagnose(look, first, result, subject=type(model).__name__, why_no_probe=why)


def look_at(
    model: nn.Module,
    calls: Sequence[Call],
    *,
    labels: torch.Tensor | None = None,
    seed: int = 0,
    first: Look | None = None,
    start: State | None = None,
    name: str = "",
    step: int = 0,
) -> Look:
    """One look without a monitor: the gradient is that of the labels, or of random signs of the outputs."""
    before = time.perf_counter()
    saved = [(parameter, parameter.grad) for parameter in model.parameters()]
    kept_gradients = []
    norms: dict[str, float] = {}
    with undisturbed(model, device_of(model)), torch.enable_grad():
        try:
            torch.manual_seed(seed)
            for parameter, _ in saved:
                parameter.grad = None
            for call in calls:
                given = call.of(model)
                if labels is not None and len(calls) == 1:
                    logits = given if isinstance(given, torch.Tensor) else outputs_of(given)
                    loss = torch.nn.functional.cross_entropy(logits.float(), labels)
                else:
                    outputs = outputs_of(given)
                    signs = torch.randint(0, 2, outputs.shape).to(outputs) * 2 - 1
                    loss = (outputs * signs).mean()
                if loss.requires_grad:
                    loss.backward()
            norms = gradient_norms(model)
            sketch = sketch_of(model)
            kept_gradients = [] if sketch is None else [sketch]
        finally:
            for parameter, gradient in saved:
                parameter.grad = gradient
    gradients = gradients_of(kept_gradients, norms) if kept_gradients else None
    weights, overall = weights_of(model, (start or State.of(model)).parameters, {}, gradients)
    units = None if gradients is None else gradients.units
    layers, bases, sites = healths(model, calls, units, None if first is None else first.layers)
    return Look(name, step, time.perf_counter() - before, layers, weights, overall, bases, sites)
