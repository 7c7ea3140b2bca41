"""The command line: parse, call, print. Nothing heavy is imported before it is known what to do."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated

try:
    import tyro
    from rich.console import Console
    from tyro.conf import subcommand
except ImportError as missing:
    sys.exit(f"adalin: the command line needs {missing.name}: pip install 'adalin[lab]'")

from adalin.cli._data import Data
from adalin.cli._look import Export, Import, List, Report, Show
from adalin.cli._run import Demo, Plan, Run
from adalin.cli._shared import complain
from adalin.cli._studies import Reproduce, Sweep
from adalin.cli._watch import Status, Watch

Command = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Run, subcommand("run")]
    | Annotated[Plan, subcommand("plan")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Watch, subcommand("watch")]
    | Annotated[Status, subcommand("status")]
    | Annotated[List, subcommand("list")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Sweep, subcommand("sweep")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Import, subcommand("import")]
    | Annotated[Data, subcommand("data")]
)


def main(arguments: list[str] | None = None) -> None:
    wide = 160 if not sys.stdout.isatty() and "COLUMNS" not in os.environ else None  # a pipe has no width
    console = Console(markup=False, highlight=False, width=wide)  # [relu(x), relu(-x)] is no markup
    try:
        command = _parse(sys.argv[1:] if arguments is None else arguments)
        sys.exit(command(console))
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on from the last checkpoint")
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python would still write at its end
        sys.exit(1)
    except Exception as error:
        if not _is_users(error):
            raise
        complain(str(error))
        sys.exit(2)


def _parse(arguments: list[str]) -> Callable[[Console], int]:
    """tyro's boxes become one line that says what is wrong."""
    if arguments == ["--version"]:
        from adalin import __version__

        print(f"adalin {__version__}")
        sys.exit(0)
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written):
            return tyro.cli(
                Command,
                args=arguments,
                prog="adalin",
                description="Networks that keep learning: benchmarks of plasticity, at the speed of the hardware.",
                config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stop:
        if stop.code not in (0, None):
            text = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
            lines = [re.sub(r"[│╭╮╰╯]|─+|-{4,}", " ", line).strip() for line in text.splitlines()]
            line = " ".join(" ".join(lines[1:]).split())
            complain(re.split(r" Argument helptext:| Got errors:| \(default: ", line)[0])
        raise


def _is_users(error: Exception) -> bool:
    """Whether an error says what the user can do; others are ours, and keep their traceback."""
    from adalin.training import RunFolderError

    return isinstance(error, ValueError | RunFolderError | OSError)
