"""The command line: parse, call, print. Nothing heavy is imported before it is known what to do."""

import io
import os
import shutil
import sys
from collections.abc import Sequence

try:
    import rich  # noqa: F401
    import tyro  # noqa: F401
except ImportError as missing:
    sys.exit(f"adalin: the command line needs {missing.name}: pip install 'adalin[lab]'")

from adalin.cli._data import DataCommand
from adalin.cli._demo import DemoCommand
from adalin.cli._look import ExportCommand, ImportCommand, ListCommand, ReportCommand, ShowCommand
from adalin.cli._parse import parse
from adalin.cli._run import PlanCommand, RunCommand
from adalin.cli._shared import Output, complain, discard_output
from adalin.cli._studies import ReproduceCommand, SweepCommand
from adalin.cli._watch import StatusCommand, WatchCommand

COMMANDS = {
    "demo": DemoCommand,
    "run": RunCommand,
    "plan": PlanCommand,
    "show": ShowCommand,
    "watch": WatchCommand,
    "status": StatusCommand,
    "list": ListCommand,
    "reproduce": ReproduceCommand,
    "sweep": SweepCommand,
    "report": ReportCommand,
    "export": ExportCommand,
    "import": ImportCommand,
    "data": DataCommand,
}


NARROWEST, PIPED = 40, 160
"""Columns of tables: at least, and in a pipe, which has no width."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command, and end the program with its exit code."""
    _mend_streams()
    try:
        try:
            sys.exit(_run(sys.argv[1:] if arguments is None else list(arguments)))
        finally:
            sys.stdout.flush()  # now, while it can still be said that nobody reads
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on from the last checkpoint")
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough, as `head` does
        discard_output()
        sys.exit(1)
    except MemoryError:
        complain("there is not enough memory")
        sys.exit(2)
    except Exception as error:
        if not _is_users(error):
            raise
        complain(str(error))
        sys.exit(2)


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from adalin import __version__, native

        print(f"adalin {__version__}, {native.describe()}")
        return 0
    command = parse(COMMANDS, arguments)
    console = _console()
    code = command(console)
    return 1 if console.reader_left else code


def _mend_streams() -> None:
    """Make output that is closed go nowhere, and characters that it has not become "?"."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _console() -> Output:
    width = max(NARROWEST, shutil.get_terminal_size((PIPED, 24)).columns)
    follows_terminal = sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Output(markup=False, highlight=False, width=None if follows_terminal else width)


def _is_users(error: Exception) -> bool:
    """Whether an error says what the user can do; others are ours, and keep their traceback."""
    if isinstance(error, ValueError | OSError) or type(error) is ImportError:  # ours, of what this machine lacks
        return True
    from adalin.runs import RunFolderError

    return isinstance(error, RunFolderError)
