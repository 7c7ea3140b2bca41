"""Base activations of AdaLin: phi, its derivative in closed form, and its exact Lipschitz constant.

The paper lists L for ReLU, Tanh and GELU (appendix "Determining the Lipschitz Constant"); its 1.12 for GELU is below
the true supremum, Phi(sqrt 2) + sqrt 2 * pdf(sqrt 2) = 1.128904..., which is what stands here.
"""

import inspect
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin._registry import Registry
from adalin.nn._estimate import check_derivative, check_elementwise, derivative_of, estimate_lipschitz


@dataclass(frozen=True)
class Base:
    """An elementwise function phi with what AdaLin needs to know of it."""

    name: str
    """Name: "relu"."""
    phi: Callable[[Tensor], Tensor]
    """Function of torch itself, so that alpha = 0 gives phi to the bit."""
    derivative: Callable[[Tensor, Tensor | None], Tensor]
    """Function (x, y) -> phi'(x), a new tensor; y is phi(x) if the caller has it, or None. Differentiable again."""
    lipschitz: float
    """L = sup |phi'|."""
    binary: bool = False
    """Whether phi' is 0 or L everywhere, so that every gate with the right ends is 1 - |phi'|/L."""
    arguments: tuple[Any, ...] | None = None
    """Arguments of the entry of `BASES`; None for a base that is not built in."""
    inverse_lipschitz: Mapping[torch.dtype, float] = field(init=False, repr=False, compare=False)
    """Reciprocal of L, rounded so that L * (1 / L) is not below 1: where |phi'| = L, the gate must close."""

    def __post_init__(self) -> None:
        inverse = {dtype: _inverse(self.lipschitz, dtype) for dtype in (torch.float32, torch.float64)}
        object.__setattr__(self, "inverse_lipschitz", inverse)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.arguments is not None:  # the closures of a built-in base cannot be pickled, but rebuilt
            return _rebuild, (self.name, self.arguments, self.lipschitz)
        return Base, (self.name, self.phi, self.derivative, self.lipschitz, self.binary)


def _inverse(value: float, dtype: torch.dtype) -> float:
    exact = torch.tensor(value, dtype=dtype, device="cpu")
    rounded = 1 / exact
    return (rounded if exact * rounded >= 1 else torch.nextafter(rounded, torch.full_like(rounded, math.inf))).item()


def _where(condition: Tensor, inside: Tensor | float, outside: Tensor | float, like: Tensor) -> Tensor:
    """torch.where that keeps `like`'s dtype when both branches are numbers."""
    if isinstance(inside, float) and isinstance(outside, float):
        inside = like.new_full((), inside)
    return torch.where(condition, inside, outside)


def _is_number(value: float) -> bool:
    return not math.isnan(value)


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _check(base: str, option: str, value: float, fits: Callable[[float], bool], kind: str) -> None:
    try:
        right = fits(value)
    except TypeError:
        right = False
    if not right:
        raise ValueError(f"the {option} of {base} must be a {kind}, not {value!r}")


def relu() -> Base:
    return Base("relu", torch.relu, lambda x, y: (x > 0).to(x.dtype), 1.0, binary=True)


def identity() -> Base:
    return Base("identity", lambda x: x.clone(), lambda x, y: torch.ones_like(x), 1.0, binary=True)


def hardtanh(min_val: float = -1.0, max_val: float = 1.0) -> Base:
    _check("hardtanh", "min_val", min_val, _is_number, "number")
    _check("hardtanh", "max_val", max_val, _is_number, "number")
    if min_val >= max_val:
        raise ValueError(f"the min_val of hardtanh must be below its max_val, not {min_val} and {max_val}")

    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        return ((x > min_val) & (x < max_val)).to(x.dtype)

    return Base("hardtanh", lambda x: F.hardtanh(x, min_val, max_val), derivative, 1.0, binary=True)


def relu6() -> Base:
    return replace(hardtanh(0.0, 6.0), name="relu6", phi=F.relu6)


def tanh() -> Base:
    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        if y is not None:
            return 1 - y * y
        s = torch.sigmoid(2 * x)  # 1 - tanh^2 = 4 s (1 - s), at less than half of tanh's cost
        return 4 * (s - s * s)

    return Base("tanh", torch.tanh, derivative, 1.0)


def sigmoid() -> Base:
    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        s = torch.sigmoid(x) if y is None else y
        return s - s * s

    return Base("sigmoid", torch.sigmoid, derivative, 0.25)


def gelu(approximate: str = "none") -> Base:
    if approximate == "tanh":
        return _gelu_tanh()
    if approximate != "none":
        raise ValueError(f"gelu's approximate must be 'none' or 'tanh', not {approximate!r}")

    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        cdf = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
        return cdf + x * (torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi)))

    lipschitz = 0.5 * (1 + math.erf(1)) + math.exp(-1) / math.sqrt(math.pi)  # attained at sqrt 2
    return Base("gelu", F.gelu, derivative, lipschitz)


def _gelu_tanh() -> Base:
    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        scale, cubic = math.sqrt(2 / math.pi), 0.044715
        t = torch.tanh(scale * (x + cubic * x * x * x))
        # Far out x^2 (1 - t^2) is inf * 0; tanh is saturated long before |x| = 1e3.
        square = x.clamp(-1e3, 1e3).square()
        return 0.5 * (1 + t) + 0.5 * x.clamp(-1e3, 1e3) * (1 - t * t) * scale * (1 + 3 * cubic * square)

    return Base("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), derivative, 1.1289930686587718)


def silu() -> Base:
    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        s = torch.sigmoid(x)
        return s * (1 + x * (1 - s))

    return Base("silu", F.silu, derivative, 1.0998393201288669)


def mish() -> Base:
    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        t = torch.tanh(F.softplus(x))
        return t + x * (torch.sigmoid(x) * (1 - t * t))

    return Base("mish", F.mish, derivative, 1.0884981612517279)


def _exponential(name: str, phi: Callable[[Tensor], Tensor], above: float, below: float, rate: float) -> Base:
    """ELU's family: slope `above` for x > 0, below * exp(rate * x) otherwise."""

    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        return _where(x > 0, above, below * torch.exp(rate * x.clamp_max(0)), x)

    return Base(name, phi, derivative, max(above, abs(below)))


def elu(alpha: float = 1.0) -> Base:
    _check("elu", "alpha", alpha, math.isfinite, "finite number")
    return _exponential("elu", lambda x: F.elu(x, alpha), 1.0, alpha, 1.0)


def selu() -> Base:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return _exponential("selu", F.selu, scale, scale * alpha, 1.0)


def celu(alpha: float = 1.0) -> Base:
    _check("celu", "alpha", alpha, _is_positive, "positive finite number")
    return _exponential("celu", lambda x: F.celu(x, alpha), 1.0, 1.0, 1 / alpha)


def leaky_relu(negative_slope: float = 0.01) -> Base:
    _check("leaky_relu", "negative_slope", negative_slope, math.isfinite, "finite number")

    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        return _where(x > 0, 1.0, float(negative_slope), x)

    return Base("leaky_relu", lambda x: F.leaky_relu(x, negative_slope), derivative, max(1.0, abs(negative_slope)))


def softplus(beta: float = 1.0, threshold: float = 20.0) -> Base:
    _check("softplus", "beta", beta, _is_positive, "positive finite number")
    _check("softplus", "threshold", threshold, _is_number, "number")

    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        return _where(beta * x > threshold, 1.0, torch.sigmoid(beta * x), x)

    return Base("softplus", lambda x: F.softplus(x, beta, threshold), derivative, 1.0)


def softsign() -> Base:
    return Base("softsign", F.softsign, lambda x, y: (1 + x.abs()).reciprocal().square(), 1.0)


def hardswish() -> Base:
    def derivative(x: Tensor, y: Tensor | None) -> Tensor:
        middle = x.clamp(-3, 3) / 3 + 0.5
        return _where(x >= 3, 1.0, _where(x <= -3, 0.0, middle, x), x)

    return Base("hardswish", F.hardswish, derivative, 1.5)


def sin() -> Base:
    return Base("sin", torch.sin, lambda x, y: torch.cos(x), 1.0)


BASES: Registry[Callable[..., Base]] = Registry(
    "base",
    {
        "relu": relu,
        "tanh": tanh,
        "sigmoid": sigmoid,
        "gelu": gelu,
        "gelu_tanh": _gelu_tanh,
        "silu": silu,
        "mish": mish,
        "elu": elu,
        "selu": selu,
        "celu": celu,
        "leaky_relu": leaky_relu,
        "softplus": softplus,
        "softsign": softsign,
        "hardswish": hardswish,
        "hardtanh": hardtanh,
        "relu6": relu6,
        "sin": sin,
        "identity": identity,
    },
    plugins=False,
)
"""The built-in bases: what makes each of its arguments."""

MODULES: dict[type[nn.Module], tuple[str, tuple[str, ...]]] = {
    nn.ReLU: ("relu", ()),
    nn.Tanh: ("tanh", ()),
    nn.Sigmoid: ("sigmoid", ()),
    nn.GELU: ("gelu", ("approximate",)),
    nn.SiLU: ("silu", ()),
    nn.Mish: ("mish", ()),
    nn.ELU: ("elu", ("alpha",)),
    nn.SELU: ("selu", ()),
    nn.CELU: ("celu", ("alpha",)),
    nn.LeakyReLU: ("leaky_relu", ("negative_slope",)),
    nn.Softplus: ("softplus", ("beta", "threshold")),
    nn.Softsign: ("softsign", ()),
    nn.Hardswish: ("hardswish", ()),
    nn.Hardtanh: ("hardtanh", ("min_val", "max_val")),
    nn.ReLU6: ("relu6", ()),
    nn.Identity: ("identity", ()),
}
"""Torch's module of each base: the base's name, and the attributes that are its arguments."""


def _functions() -> dict[Callable[..., Any], str]:
    found: dict[Callable[..., Any], str] = {}
    for name in BASES:
        for namespace in (F, torch, torch.Tensor):
            for attribute in (name, name + "_"):
                function = getattr(namespace, attribute, None)
                if callable(function):
                    found[function] = name
    return found


FUNCTIONS = _functions()
"""Torch's functions of each base. Their keyword arguments, if any, are the base's arguments too."""


def bases() -> tuple[str, ...]:
    """The names of the built-in bases."""
    return tuple(BASES)


def make_base(name: str, *args: Any, **kwargs: Any) -> Base:
    """The built-in base of that name, with the arguments of torch's module or function of that name."""
    make = BASES.get(name)
    try:
        bound = inspect.signature(make).bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"base {name!r}: {error}") from None
    bound.apply_defaults()  # or what follows an argument that was left out would be lost
    return replace(make(*bound.args), name=name, arguments=bound.args)


def as_base(base: "str | type[nn.Module] | Callable[[Tensor], Tensor] | Base", lipschitz: float | None = None) -> Base:
    """The `Base` that a name, an `nn.Module` class or instance, or any elementwise callable stands for."""
    if isinstance(base, type) and issubclass(base, nn.Module):
        name = base.__name__
        try:
            return as_base(base(), lipschitz)
        except TypeError as error:
            raise ValueError(f"{name} cannot be used as a base: {error}") from None
    if isinstance(base, Base):
        found = base
    elif isinstance(base, str):
        found = make_base(base)
    elif isinstance(base, nn.Module) and type(base) in MODULES:
        found = module_base(base)
    elif callable(base) and not isinstance(base, type):
        known = isinstance(base, Hashable) and base in FUNCTIONS
        found = make_base(FUNCTIONS[base]) if known else _from_callable(base, lipschitz)
    else:
        raise TypeError(f"base must be a name, an nn.Module or a callable, not {base!r}")
    return found if lipschitz is None else _with_lipschitz(found, lipschitz)


def module_base(module: nn.Module) -> Base:
    """The `Base` of one of torch's activation modules, with that module's own settings."""
    name, attributes = MODULES[type(module)]
    return make_base(name, *(getattr(module, attribute) for attribute in attributes))


def _with_lipschitz(base: Base, lipschitz: float) -> Base:
    if not (math.isfinite(lipschitz) and lipschitz > 0):
        raise ValueError(f"lipschitz must be a positive finite number, not {lipschitz!r}")
    return replace(base, lipschitz=float(lipschitz), binary=base.binary and lipschitz == base.lipschitz)


def _rebuild(name: str, arguments: tuple[Any, ...], lipschitz: float) -> Base:
    return _with_lipschitz(make_base(name, *arguments), lipschitz)


def _from_callable(phi: Callable[[Tensor], Tensor], lipschitz: float | None) -> Base:
    name = type(phi).__name__ if isinstance(phi, nn.Module) else getattr(phi, "__name__", repr(phi))
    if isinstance(phi, nn.Module) and next(phi.parameters(), None) is not None:
        raise ValueError(
            f"base {name} has parameters of its own, so its Lipschitz constant would move: use a fixed one"
        )
    if isinstance(phi, nn.Module) and next(phi.buffers(), None) is not None:
        raise ValueError(f"base {name} has buffers, which would be neither saved nor moved with the layer: use numbers")
    with torch.device("cpu"):  # whatever the default is: a network may be built on the meta device, without numbers
        check_elementwise(phi, name)
        check_derivative(phi, name)
        if lipschitz is None:
            lipschitz = estimate_lipschitz(phi, name)
    # A copy, because AdaLin writes into phi's result, which may be phi's input.
    return Base(name, partial(_copied, phi), partial(_derivative_of, phi), lipschitz)


def _copied(phi: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return phi(x).clone()


def _derivative_of(phi: Callable[[Tensor], Tensor], x: Tensor, y: Tensor | None) -> Tensor:
    return derivative_of(phi, x)
