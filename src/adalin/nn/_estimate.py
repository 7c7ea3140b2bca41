"""What AdaLin must find out about a callable it does not know: is it elementwise, its derivative, its L."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def derivative_of(phi: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """phi'(x) of an elementwise phi: its Jacobian is diagonal, so one product with ones gives all of it."""
    return torch.func.jvp(phi, (x,), (torch.ones_like(x),))[1]


def check_elementwise(phi: Callable[[Tensor], Tensor], name: str) -> None:
    """Raise unless phi maps each element on its own, the same way every time."""
    x = torch.linspace(-3, 3, 24, dtype=torch.float64)
    try:
        before = x.reshape(4, 6).clone()
        whole = phi(before).clone()
        parts = torch.cat([phi(part.reshape(1, -1).clone()).reshape(-1) for part in x.flip(0).split([1, 5, 18])])
    except Exception as error:
        raise ValueError(f"base {name} cannot be applied to a tensor elementwise: {error}") from error
    if not torch.equal(before.reshape(-1), x):
        raise ValueError(f"base {name} changes its input: use the version that does not work in place")
    if whole.shape != (4, 6) or not torch.allclose(whole.reshape(-1).flip(0), parts, rtol=0, atol=0, equal_nan=True):
        raise ValueError(
            f"base {name} is not elementwise: an element's output depends on other elements, on the shape or on chance"
        )


def check_derivative(phi: Callable[[Tensor], Tensor], name: str) -> None:
    """Raise unless torch can tell phi's derivative together with its values."""
    try:
        derivative_of(phi, torch.linspace(-3, 3, 24, dtype=torch.float64))
    except Exception as error:
        raise ValueError(
            f"base {name} has no forward-mode derivative, of which the gate is made: write it with torch's functions, "
            "or give its autograd.Function a setup_context and a jvp"
        ) from error


def estimate_lipschitz(phi: Callable[[Tensor], Tensor], name: str) -> float:
    """sup |phi'| over |x| <= 1e4, from a grid refined around its maximum.

    The supremum counts as infinite when it still grows between two nested grids: towards infinity (x^2) or towards
    zero (sqrt |x|).
    """
    magnitudes = torch.logspace(-8, 4, 24_001, dtype=torch.float64)
    x = torch.cat([-magnitudes.flip(0), torch.linspace(-20, 20, 40_001, dtype=torch.float64), magnitudes]).sort().values
    slope = derivative_of(phi, x).abs()
    bad = ~slope.isfinite()
    if bad.any():
        where = x[bad].abs().min().item()
        raise ValueError(
            f"base {name} has no finite Lipschitz constant: its derivative is not finite at |x| = {where:g}"
        )
    inner = slope[(x.abs() <= 1e2) & (x.abs() >= 1e-4)].max().item()
    if slope.max().item() > 1.01 * inner:
        where = x[slope.argmax()].item()
        raise ValueError(
            f"base {name} has no finite Lipschitz constant: |phi'| grows to {slope.max().item():.3g} "
            f"at x = {where:.3g}; if it is bounded, pass lipschitz="
        )
    if slope.max().item() == 0:
        raise ValueError(f"base {name} is constant: its derivative is zero everywhere")
    best = int(slope.argmax())
    for _ in range(4):  # each pass narrows the bracket a thousandfold
        low, high = x[max(best - 1, 0)].item(), x[min(best + 1, len(x) - 1)].item()
        x = torch.linspace(low, high, 2_001, dtype=torch.float64)
        slope = derivative_of(phi, x).abs()
        best = int(slope.argmax())
    estimate = slope[best].item()
    assert math.isfinite(estimate)
    return estimate
