"""JSON files of which anything may be true: one reader that names the file and what is wrong with it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adalin.runs._disk import RunFolderError, read_file
from adalin.runs._paths import shown_path

MOST_BYTES = 4_000_000
"""Size of the largest file, unless the caller says otherwise; damaged ones must not fill the memory."""

Check = Callable[[Any], bool]


class Schema:
    """What a value made of JSON must be. It is given as

        str, bool               a text, true or false
        int, float              a whole number, a finite number (whole or not); neither takes true
        range(0, 10)            a whole number in that range
        None                    null
        {"done", "stopped"}     one of these texts
        (str, None)             either
        [float]                 a list of such
        {"seed": int, "data?": str, str: float}
                                an object with these fields, those with a "?" if they are there; others are such, or
                                anything if nothing is said of them
        object                  anything

    Examples:
        >>> schema = Schema({"seed": int, "data?": (str, None)})
        >>> schema.mismatch({"seed": 3, "data": None, "more": []})
        >>> schema.mismatch({"seed": 3, "data": 4})
        'data is 4, not a text or null'
    """

    def __init__(self, form: Any) -> None:
        self._form, self.fits = form, _check(form)

    def mismatch(self, value: Any, place: str = "") -> str | None:
        """What is wrong with a value, in a few words; None if it is as it must be."""
        return None if self.fits(value) else _mismatch(value, self._form, place)


def read_json(
    path: Path | str, schema: Schema, *, hint: str = "restore or delete it", most_bytes: int = MOST_BYTES
) -> Any:
    """The content of a JSON file that is as its schema says; else RunFolderError in one line that ends with a hint."""
    return parse_json(read_file(path, most_bytes), schema, path, hint=hint)


def parse_json(data: bytes, schema: Schema, what: Path | str, *, hint: str = "restore or delete it") -> Any:
    """As `read_json`, of what was read already."""
    try:
        content = decode(data)
        if (problem := schema.mismatch(content)) is None:
            return content
    except ValueError:
        problem = "not JSON"
    except RecursionError:
        problem = "nested too deeply"
    raise RunFolderError(f"{shown_path(what)} is damaged: {problem}; {hint}")


def decode(data: bytes) -> Any:
    """JSON in the strict sense; Python would take NaN and infinities too. Raises ValueError or RecursionError."""
    return _DECODER.decode(data.decode())


def _check(form: Any) -> Check:
    """A function that says whether a value has a form. What JSON is made of has no subclasses."""
    if isinstance(form, tuple):
        return _either(form)
    if isinstance(form, dict):
        return _fields(form)
    if isinstance(form, list):
        item = _check(form[0])
        return lambda value: type(value) is list and all(map(item, value))
    if isinstance(form, range):
        return lambda value: type(value) is int and value in form
    if isinstance(form, set):
        return lambda value: type(value) is str and value in form
    if form is object:
        return lambda value: True
    if form is None:
        return lambda value: value is None
    if form is float:
        return lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max
    assert form in (str, int, bool), "a form that there is not"
    return lambda value: type(value) is form


def _either(forms: tuple[Any, ...]) -> Check:
    checks = [_check(form) for form in forms]
    return lambda value: any(check(value) for check in checks)


def _fields(form: dict[Any, Any]) -> Check:
    named = {key.removesuffix("?"): _check(own) for key, own in form.items() if key is not str}
    required = [key for key in form if key is not str and not key.endswith("?")]
    other = _check(form[str]) if str in form else None

    def check(value: Any) -> bool:
        if type(value) is not dict or not all(map(value.__contains__, required)):
            return False
        for name, item in value.items():
            own = named.get(name, other)
            if own is not None and not own(item):
                return False
        return True

    return check


def _mismatch(value: Any, form: Any, place: str) -> str | None:
    """What is wrong with a value; None if it has the form."""
    if _check(form)(value):
        return None
    for choice in form if isinstance(form, tuple) else (form,):
        if isinstance(choice, dict) and isinstance(value, dict):
            return _wrong_field(value, choice, f"{place}." if place else "")
        if isinstance(choice, list) and isinstance(value, list):
            problems = (_mismatch(item, choice[0], f"{place}[{number}]") for number, item in enumerate(value))
            return next(problem for problem in problems if problem)
    return f"{place or 'it'} is {_brief(value)}, not {_describe(form)}"


def _wrong_field(value: dict[str, Any], form: dict[Any, Any], prefix: str) -> str | None:
    named = {key.removesuffix("?"): own for key, own in form.items() if key is not str}
    for name in named:
        if name in form and name not in value:
            return f"{prefix}{name} is missing"
    for name, item in value.items():
        shown = name if name.isidentifier() and name.isascii() else _brief(name)
        if problem := _mismatch(item, named.get(name, form.get(str, object)), f"{prefix}{shown}"):
            return problem
    return None


def _describe(form: Any) -> str:
    if isinstance(form, tuple):
        return " or ".join(map(_describe, form))
    if isinstance(form, range):
        return f"a whole number from {form.start:,} to {form[-1]:,}"
    if isinstance(form, set):
        return f"one of {', '.join(sorted(form))}"
    if isinstance(form, dict):
        return "an object"
    if isinstance(form, list):
        return "a list"
    names = {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false", None: "null"}
    return names[form]


def _brief(value: Any) -> str:
    """A value for a message, in ASCII."""
    if isinstance(value, dict | list):
        return _describe(value)
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:30]}..."


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
