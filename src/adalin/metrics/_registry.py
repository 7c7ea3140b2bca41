"""Metrics by name."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from adalin._registry import Registry, check_entry
from adalin.metrics._network_on_data import NEEDS, NetworkOnData

Compute = Callable[[NetworkOnData], Any]
"""A number, or lists or dicts of numbers, or a tensor or array in place of either; None if it does not apply."""
_Function = TypeVar("_Function", bound=Compute)

TAKEN = frozenset({"task", "env_step", "run", "benchmark", "method", "seed", "lr", "batch_size", "epochs"})
"""Fields that rows and tables have beside the metrics."""


@dataclass(frozen=True)
class Metric:
    """A registered metric."""

    name: str
    """Name of its field in a row."""
    summary: str
    """One line about it."""
    paper: str
    """Paper that it comes from."""
    needs: frozenset[str]
    """Parts of the network and its data that it looks at, from `NEEDS`."""
    compute: Compute
    """Function of a network and its data that gives the value."""
    accuracy: bool = False
    """Whether it is a share of right answers, from 0 to 1, of which a run that diverged has 0 from there on."""


METRICS: Registry[Metric] = Registry("metric")


def register_metric(
    name: str, summary: str, *, paper: str = "", needs: Collection[str] = NEEDS, accuracy: bool = False
) -> Callable[[_Function], _Function]:
    """Make a function a metric known by name, so that every task's row has it; a decorator.

    `needs` says what it looks at, so that a network on data without that is measured without this metric; by default
    all there is. An `accuracy` is a share of right answers: a run that diverged counts with 0 from there on.
    """

    def register(compute: _Function) -> _Function:
        check_entry("a metric", compute, summary)
        if name in TAKEN:
            raise ValueError(f"a metric cannot be named {name!r}: rows have a field of that name")
        if isinstance(needs, str) or not NEEDS.issuperset(needs):
            raise ValueError(f"the needs of a metric are a set of {', '.join(sorted(NEEDS))}, not {needs!r}")
        METRICS.register(name, Metric(name, summary, paper, frozenset(needs), compute, accuracy))
        return compute

    return register


def is_accuracy(name: str) -> bool:
    """Whether a number of a row is a registered metric that is a share of right answers."""
    return name in METRICS and METRICS.get(name).accuracy


def metrics() -> Mapping[str, Metric]:
    """Every registered metric by name."""
    return METRICS.listing()


def measure(network: NetworkOnData, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The values of the metrics named, or of all that can be had, as plain JSON values in the registry's order.

    Tensors become numbers and lists with 7 significant digits, about float32's precision. What is not finite becomes
    None, as JSON has no NaN.
    """
    if names is None:
        wanted = {name for name, entry in METRICS.listing().items() if entry.needs <= network.gives}
    else:
        wanted = set(names)
    for name in sorted(wanted):
        missing = METRICS.get(name).needs - network.gives
        if missing:
            raise ValueError(f"metric {name!r} needs {', '.join(sorted(missing))}, which are not known here")
    if any("gradient" in METRICS.get(name).needs for name in wanted):
        network.compute_gradient()
    return {name: _plain(entry.compute(network)) for name, entry in METRICS.listing().items() if name in wanted}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor) or type(value).__module__ == "numpy":
        return _rounded(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return _plain(float(f"{value:.7g}"))
