"""data fetch, verify, where."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional

from adalin.cli._options import Metavar
from adalin.cli._shared import complain

Name = Literal["mnist", "cifar10", "cifar100"]
ALL: tuple[Name, ...] = ("mnist", "cifar10", "cifar100")


@dataclass(frozen=True, kw_only=True)
class DataCommand:
    """MNIST, CIFAR-10 and CIFAR-100: fetch them, verify them, or tell where they are."""

    action: Positional[Literal["fetch", "verify", "where"]]
    """Action: fetch (download and check), verify (read and check) or where (tell the folder and what is in it)."""
    names: Annotated[Positional[tuple[Name, ...]], Metavar("NAME")] = ()
    """Data sets to fetch or verify: mnist, cifar10, cifar100; by default all of them."""
    data: Path | None = None
    """Folder of the data sets; else $ADALIN_DATA, else the user's cache."""

    def __call__(self, console: Console) -> int:
        from adalin.data import fetch, where

        if self.action == "where":
            if self.names:
                raise ValueError(f"`adalin data where` is about all data sets: leave out {' '.join(self.names)}")
            console.print(str(where(self.data)), soft_wrap=True)
        elif self.action == "fetch":
            for name in self.names or ALL:
                console.print(str(fetch(name, self.data)), soft_wrap=True)
        else:
            return self._verify(console)
        return 0

    def _verify(self, console: Console) -> int:
        from adalin.data import DataError, verify

        code = 0
        for name in self.names or ALL:
            try:
                console.print(str(verify(name, self.data)), soft_wrap=True)
            except DataError as error:
                complain(str(error))
                code = 1
        return code
