"""Every optimiser, step by step, against torch.optim's of the same name, in float64."""

from typing import Any

import pytest
import torch

from adalin.optim import OPTIMIZERS, SGD, Adam, AdamW, Optimizer, RMSprop
from adalin.structure import Part

THEIRS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
SHAPES = {"weight": (7, 5), "bias": (7,), "alpha": (7,), "norm": (3, 1)}
WEIGHTS = ("weight", "bias")

OPTIONS = [
    SGD(),
    SGD(weight_decay=0.1),
    SGD(momentum=0.9),
    SGD(momentum=0.9, nesterov=True, weight_decay=0.1),
    Adam(),
    Adam(beta1=0.5, beta2=0.99, eps=1e-3, weight_decay=0.1),
    AdamW(),
    AdamW(weight_decay=0.0),
    AdamW(beta1=0.8, weight_decay=0.3),
    RMSprop(),
    RMSprop(alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=0.1),
]


def parts_of(values: dict[str, torch.Tensor]) -> list[Part]:
    return [Part(name, value.clone(), torch.zeros_like(value), name in WEIGHTS) for name, value in values.items()]


def torchs(optimizer: Optimizer, values: dict[str, torch.Tensor], lr: float) -> torch.optim.Optimizer:
    options: dict[str, Any] = dict(vars(optimizer)) | {"lr": lr}
    del options["schedule"]
    if "beta1" in options:
        options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in values.items()}
    groups = [
        {"params": [own for name, own in parameters.items() if name in WEIGHTS]},
        {"params": [own for name, own in parameters.items() if name not in WEIGHTS], "weight_decay": 0.0},
    ]
    return THEIRS[optimizer.name](groups, **options)


@pytest.mark.parametrize("optimizer", OPTIONS, ids=repr)
def test_each_step_is_torchs_and_alphas_and_norms_do_not_decay(optimizer: Optimizer) -> None:
    values = {name: torch.randn(shape, dtype=torch.float64) for name, shape in SHAPES.items()}
    parts, theirs = parts_of(values), torchs(optimizer, values, 0.03)
    parameters = [own for group in theirs.param_groups for own in group["params"]]
    state = optimizer.init(parts)
    for _ in range(50):
        for part, parameter in zip(parts, parameters, strict=True):
            part.grad.normal_()
            parameter.grad = part.grad.clone()
        before = [part.grad.clone() for part in parts]
        optimizer.step(parts, state, 0.03)
        theirs.step()
        for part, parameter, grad in zip(parts, parameters, before, strict=True):
            torch.testing.assert_close(part.value, parameter.data, rtol=0, atol=1e-12)
            assert torch.equal(part.grad, grad)
    for part, parameter in zip(parts, parameters, strict=True):
        for name, theirs_of_it in theirs.state[parameter].items():
            if name == "step":  # RMSprop's is a number that nothing is computed with
                assert state.get("step", theirs_of_it) == theirs_of_it
            elif theirs_of_it is not None:
                torch.testing.assert_close(state[f"{name}.{part.name}"], theirs_of_it, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_defaults_are_torchs(name: str) -> None:
    optimizer, parameter = OPTIMIZERS.get(name)(), torch.nn.Parameter(torch.zeros(1))
    (theirs,) = THEIRS[name]([parameter], lr=1.0).param_groups
    betas = theirs.get("betas", (None, None))
    expected = theirs | {"beta1": betas[0], "beta2": betas[1]}
    for option in set(vars(optimizer)) - {"lr", "schedule"}:
        assert getattr(optimizer, option) == expected[option], option


@pytest.mark.parametrize("optimizer", OPTIONS, ids=repr)
def test_where_gradients_have_always_been_0_nothing_moves(optimizer: Optimizer) -> None:
    """Native networks are padded with numbers that have to stay 0."""
    parts = parts_of({name: torch.zeros(shape) for name, shape in SHAPES.items()})
    state = optimizer.init(parts)
    for _ in range(3):
        optimizer.step(parts, state, 0.1)
    assert not any(part.value.any() for part in parts)
    assert not any(value.any() for name, value in state.items() if name != "step")
