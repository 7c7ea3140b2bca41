"""What a test registers is forgotten when it is over."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import adalin.executors  # noqa: F401, so that every registry is there
from adalin import _registry


@contextmanager
def forgotten() -> Iterator[None]:
    """Everything that is registered meanwhile is forgotten at the end."""
    with ExitStack() as stack:
        for registry in _registry.registries:
            stack.enter_context(registry.temporarily())
        yield


def forget_all(what: str) -> None:
    """Empty a registry, inside `forgotten`."""
    for registry in _registry.registries:
        if registry.what == what:
            registry._entries.clear()
