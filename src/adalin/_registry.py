"""What is known by name: one registry for activations, methods, models, metrics, benchmarks and the rest."""

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from adalin._text import did_you_mean

Entry = TypeVar("Entry")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_versions = itertools.count(1)

registries: "list[Registry[Any]]" = []
"""Every registry there is, so that a test can make all of them forget what it registered."""


class UnknownNameError(ValueError):
    """A name that nothing is registered under; the message lists what there is."""


class Registry(Generic[Entry]):
    """Entries by name, in the order in which they were registered.

    Args:
        what: what an entry is, in the singular, for messages: "activation".
        entries: what is there from the start.
        plugins: whether a user's own module may register more, which `--plugin` then imports.
        beside: a registry whose names are written in the same place, so that no name may be in both.

    Examples:
        >>> from adalin._registry import Registry
        >>> colours = Registry("colour", {"red": 1, "green": 2}, plugins=False)
        >>> colours.get("red")
        1
        >>> colours.get("gren")
        Traceback (most recent call last):
        adalin._registry.UnknownNameError: unknown colour 'gren' (did you mean 'green'?); known: red, green
    """

    def __init__(
        self,
        what: str,
        entries: Mapping[str, Entry] | None = None,
        *,
        plugins: bool = True,
        beside: "Registry[Any] | None" = None,
    ) -> None:
        self.what = what
        self._plugins = plugins
        self._entries = dict(entries or {})
        self._others: list[Registry[Any]] = []
        if beside is not None:
            self._others.append(beside)
            beside._others.append(self)
        registries.append(self)
        self.version = 0
        """A number that stands for the entries there are, for caches of what was made of them."""

    def register(self, name: str, entry: Entry) -> Entry:
        """Make an entry known by its name, which files, folders and commands can then have."""
        check_name(self.what, name)
        for registry in (self, *self._others):
            if name in registry:
                raise ValueError(f"{_article(registry.what)} named {name!r} is registered already")
        self._entries[name] = entry
        self.version = next(_versions)
        return entry

    def get(self, name: str) -> Entry:
        """The entry of a name; raises `UnknownNameError`."""
        if name not in self:
            raise self.unknown(name)
        return self._entries[name]

    def unknown(self, name: object, known: Iterator[str] | list[str] | None = None) -> UnknownNameError:
        """The error for a name that is not there; `known` in place of the entries' own names."""
        names = list(self._entries if known is None else known)
        hint = did_you_mean(name, names) if isinstance(name, str) else ""
        plugin = "; if a plugin brings it, name that with --plugin" if self._plugins else ""
        return UnknownNameError(f"unknown {self.what} {name!r}{hint}; known: {', '.join(names)}{plugin}")

    def listing(self) -> Mapping[str, Entry]:
        """All entries by name; follows later registrations, and cannot be written to."""
        return MappingProxyType(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @contextmanager
    def temporarily(self) -> Iterator[None]:
        """Forget at the end what was registered meanwhile."""
        before, version = dict(self._entries), self.version
        try:
            yield
        finally:
            self._entries.clear()
            self._entries.update(before)
            self.version = version


def check_name(what: str, name: object) -> None:
    """Raises ValueError unless a name can stand in a command, a method's text, a file's name and a spreadsheet."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(
            f"{_article(what)}'s name is made of letters, digits, '_', '-' and '.', and begins with none of the last "
            f"two: not {name!r}"
        )


def check_entry(what: str, build: object, summary: object) -> None:
    """Raises ValueError unless an entry has a function that makes it and one line about it."""
    if not callable(build):
        raise ValueError(f"{what} needs a callable that makes it, not {build!r}")
    if not isinstance(summary, str) or len(summary.splitlines()) != 1:
        raise ValueError(f"{what} needs a summary of one line, not {summary!r}")


def _article(what: str) -> str:
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
