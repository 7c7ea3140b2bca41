"""What a setting is: a field of a frozen dataclass that says its type, its default, its bounds and what it is for."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, SupportsFloat, SupportsIndex

from adalin._text import did_you_mean

LARGEST = 3e38
"""The largest number that is surely finite in float32."""
SMALLEST = 1.2e-38
"""The smallest positive number that float32 holds in full: engines flush smaller ones to zero."""
LONGEST = 10**9
"""The largest count: of tasks, steps, images or transitions. Larger ones are typing errors."""


def setting(
    default: Any = MISSING,
    *,
    least: int | None = None,
    most: int = LONGEST,
    positive: bool = False,
    share: bool = False,
    choices: tuple[str, ...] = (),
    is_option: bool = True,
    is_scale: bool = False,
    defines: bool = True,
) -> Any:
    """A field of a `Settings` dataclass.

    Args:
        default: the value where nobody chooses one; without a default the benchmark has it.
        least: the smallest whole number that it can be; without it, it is no whole number.
        most: the largest whole number that it can be.
        positive: whether it is a number above 0.
        share: whether it is a number above 0 and at most 1.
        choices: the texts that it can be.
        is_option: whether a user chooses it; otherwise it is found out.
        is_scale: whether a smaller value makes a smaller experiment rather than another one.
        defines: whether a run with another value is another run; a run can be given more of what does not.
    """
    metadata = {
        "least": least,
        "most": most,
        "positive": positive,
        "share": share,
        "choices": choices,
        "is_option": is_option,
        "is_scale": is_scale,
        "defines": defines,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that can be chosen of a run beside its benchmark, method and seed. Subclasses have the fields.

    A field is the one place of a setting: the command line, a run's config file, benchmarks, claims and pages read it.
    """

    def __post_init__(self) -> None:
        for name, spec in specifications(type(self)).items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), spec))

    @property
    def rows(self) -> int:
        """Rows that a complete run has, one per task."""
        raise AssertionError("each kind of settings counts its rows")

    def values(self) -> dict[str, Any]:
        """Every setting by name."""
        return dict(vars(self))

    def chosen(self) -> dict[str, Any]:
        """The settings that are options of the command line."""
        return {name: getattr(self, name) for name in self.options()}

    def defining(self) -> dict[str, Any]:
        """The settings that make a run this run and no other."""
        return {name: getattr(self, name) for name, spec in specifications(type(self)).items() if spec["defines"]}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The defaults of those settings that have one."""
        return {entry.name: entry.default for entry in fields(cls) if entry.default is not MISSING}

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The settings that a user can choose."""
        return tuple(name for name, spec in specifications(cls).items() if spec["is_option"])

    @classmethod
    def given(cls, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Those settings that somebody has chosen, which are not None; raises ValueError for what is no setting."""
        known = cls.options()
        for name in chosen:
            if name not in known:
                raise ValueError(f"there is no setting {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
        return {name: value for name, value in chosen.items() if value is not None}

    @classmethod
    def scale(cls) -> tuple[str, ...]:
        """The settings that make an experiment larger or smaller."""
        return tuple(name for name, spec in specifications(cls).items() if spec["is_scale"])


def specifications(settings: type[Settings]) -> Mapping[str, Mapping[str, Any]]:
    """What `setting` was told about each field."""
    if "_specifications" not in vars(settings):
        found = {
            entry.name: {
                **entry.metadata,
                "optional": entry.default is None,
                "flag": isinstance(entry.default, bool),
            }
            for entry in fields(settings)
        }
        settings._specifications = MappingProxyType(found)  # type: ignore[attr-defined]
    return settings._specifications  # type: ignore[attr-defined]


def _checked(name: str, value: Any, spec: Mapping[str, Any]) -> Any:
    """A value as plain Python; raises ValueError if it is not what the field says."""
    option = name.replace("_", "-")
    if value is None and spec["optional"]:
        return None
    if spec["least"] is not None:
        if not isinstance(value, SupportsIndex) or isinstance(value, bool) or value.__index__() < spec["least"]:
            raise ValueError(f"{option} must be a whole number of at least {spec['least']}, not {value!r}")
        if value.__index__() > spec["most"]:
            raise ValueError(f"{option} must be a whole number of at most {spec['most']:,}, not {value!r}")
        return value.__index__()
    if spec["positive"] or spec["share"]:
        most, bound = (1.0, "number above 0 and at most 1") if spec["share"] else (LARGEST, "positive number")
        number = _as_number(value)
        if not 0 < number < math.inf or (spec["share"] and number > most):
            raise ValueError(f"{option} must be a {bound}, not {value!r}")
        if not SMALLEST <= number <= most:
            raise ValueError(f"{option} must be a number from {SMALLEST} to {most:g}, not {value!r}")
        return number
    if spec["flag"]:
        if not isinstance(value, bool):
            raise ValueError(f"{option} must be true or false, not {value!r}")
        return value
    if spec["choices"] and value not in spec["choices"]:
        raise ValueError(f"{option} must be one of {', '.join(spec['choices'])}, not {value!r}")
    if not isinstance(value, str):
        raise ValueError(f"{option} must be a text, not {value!r}")
    return value


def _as_number(value: Any) -> float:
    """A number as Python has it; NaN for what is none."""
    if isinstance(value, str | bytes | bool) or not isinstance(value, SupportsFloat):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):  # a whole number beyond all bounds, or an array of several
        return math.nan
