"""data fetch, verify, where."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, subcommand

from adalin.cli._shared import complain


@dataclass(frozen=True)
class Fetch:
    """Download data sets, from their authors or from mirrors, and check them."""

    names: Positional[tuple[Literal["mnist", "cifar10", "cifar100"], ...]] = ("mnist", "cifar10", "cifar100")
    """Which; all of them if none is named."""
    data: Path | None = None
    """The folder; else $ADALIN_DATA, else the user's cache."""

    def __call__(self, console: Console) -> int:
        from adalin.data import fetch

        for name in self.names:
            console.print(str(fetch(name, self.data)), soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Verify:
    """Read data sets and check their content."""

    names: Positional[tuple[Literal["mnist", "cifar10", "cifar100"], ...]] = ("mnist", "cifar10", "cifar100")
    """Which; all of them if none is named."""
    data: Path | None = None
    """The folder; else $ADALIN_DATA, else the user's cache."""

    def __call__(self, console: Console) -> int:
        from adalin.data import DataError, verify

        wrong = 0
        for name in self.names:
            try:
                console.print(str(verify(name, self.data)), soft_wrap=True)
            except DataError as error:
                complain(str(error))
                wrong = 1
        return wrong


@dataclass(frozen=True)
class Where:
    """The folder that data is looked for in, and what is there."""

    data: Path | None = None
    """The folder to look at instead."""

    def __call__(self, console: Console) -> int:
        from adalin.data import where

        console.print(str(where(self.data)), soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Data:
    """MNIST, CIFAR-10 and CIFAR-100: fetch, verify, where."""

    command: (
        Annotated[Fetch, subcommand("fetch")]
        | Annotated[Verify, subcommand("verify")]
        | Annotated[Where, subcommand("where")]
    )

    def __call__(self, console: Console) -> int:
        return self.command(console)
