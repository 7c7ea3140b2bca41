"""From arguments to a command: tyro parses them; what it lets pass is refused before, and its boxes become one line."""

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Union

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, OmitArgPrefixes, subcommand

from adalin._text import did_you_mean
from adalin.cli._options import Option, all_options, fill, group_titles, make_form

NARROWEST, WIDEST = 40, 120
"""Columns of the help; on very few tyro does not come to an end."""
UNBROKEN = 1_000_000
"""Columns of tyro's errors, so that each of their lines stays one."""
HELP = ("-h", "--help", "--help-all")
WANTED = {int: ("a whole number", "whole numbers"), float: ("a number", "numbers")}
"""What a value must be, or several values."""


class _RefusedError(Exception):
    """Arguments that tyro refuses, with the lines of its box."""

    def __init__(self, box: str) -> None:
        text = re.sub(r"\x1b\[[0-9;]*m", "", box)
        rows = [line.strip().strip("│|").strip() for line in text.splitlines()[1:-1]]
        self.lines = [row for row in rows if row.strip("─-")]
        super().__init__(" ".join(self.lines))


def parse(commands: Mapping[str, type], arguments: Sequence[str]) -> Any:
    """The command that arguments stand for; raises ValueError with one line about what is wrong with them.

    Help is printed, and ends the program.
    """
    name, *words = arguments or [""]
    asked = {word for word in takewhile(lambda word: word != "--", arguments) if word in HELP}
    if name in commands and asked:
        _print_help(name, commands[name], is_complete="--help-all" in asked)
    elif asked or name.startswith("--tyro-"):  # which completes commands in a shell
        _call_tyro(_any_of(commands), "adalin", ["--help"] if asked else arguments, columns=_help_columns())
    if name not in commands:
        wrong = f"unknown command {name!r}{did_you_mean(name, commands)}" if name else "a command is missing"
        raise ValueError(f"{wrong}; known: {', '.join(commands)}; `adalin --help` says what they do")
    options = list(all_options(commands[name]))
    _check(name, words, {option.flag: option for option in options if not option.is_positional})
    try:
        form = _call_tyro(make_form(commands[name]), f"adalin {name}", words)
    except _RefusedError as error:
        raise ValueError(_in_a_line(error.lines, name, options)) from None
    return fill(commands[name], form)


def _any_of(commands: Mapping[str, type]) -> Any:
    return Union[tuple(Annotated[command, subcommand(name)] for name, command in commands.items())]  # noqa: UP007


def _print_help(name: str, command: type, *, is_complete: bool) -> None:
    try:
        _call_tyro(make_form(command, is_complete=is_complete), f"adalin {name}", ["--help"], columns=_help_columns())
    finally:
        titles = [] if is_complete else group_titles(command)
        if titles:
            print(f"More, with `adalin {name} --help-all`: {', '.join(titles)}.")


def _help_columns() -> int:
    return min(max(shutil.get_terminal_size((WIDEST, 24)).columns, NARROWEST), WIDEST)


def _call_tyro(form: Any, program: str, arguments: Sequence[str], *, columns: int = UNBROKEN) -> Any:
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written), _columns(columns):
            return tyro.cli(
                form,
                args=arguments,
                prog=program,
                description="Networks that keep learning: benchmarks of plasticity." if program == "adalin" else None,
                config=(DisallowNone, FlagCreatePairsOff, OmitArgPrefixes),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise _RefusedError(written.getvalue()) from None


@contextlib.contextmanager
def _columns(count: int) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _check(name: str, words: Sequence[str], options: Mapping[str, Option]) -> None:
    """Refuse options that are unknown, that come twice or that have no value."""
    seen = set()
    words = list(takewhile(lambda word: word != "--", words))
    for place, word in enumerate(words):
        if not _is_option(word):
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        if flag not in options:
            hint = did_you_mean(flag, options)
            raise ValueError(f"`adalin {name}` has no option {flag}{hint}; `adalin {name} --help-all` lists them")
        option = options[flag]
        if equals and not option.value:
            raise ValueError(f"{flag} takes no value, and {value!r} is one")
        following = [value] if equals else words[place + 1 :]
        is_missing = not following or not following[0] or (not equals and _is_option(following[0]))
        if option.value and is_missing:
            raise ValueError(f"{flag} needs a value: {flag} {option.value}")
        if flag in seen:
            several = f"; all values come after one: {flag} {option.value}" if option.is_many else ""
            raise ValueError(f"{flag} is given twice{several}")
        seen.add(flag)


def _is_option(word: str) -> bool:
    return word.startswith("--")


def _in_a_line(lines: Sequence[str], name: str, options: Sequence[Option]) -> str:
    """What tyro says, in the words of this program where it is known, else its first line."""
    said, following = [*lines, "", ""][:2]
    named = {option.field.name: option for option in options} | {option.flag: option for option in options}
    if match := re.match(r"Error parsing (\S+): .*?(?:\[(.*)\]|'(.*)')\.?$", said):
        return _refuse_value(named[match[1]], match[2] or repr(match[3]))
    if match := re.match(r"invalid choice ('.*') for argument '(.*)'\. Expected one of", said):
        return _refuse_value(named[match[2]], match[1])
    if said.startswith("Missing from"):
        texts = [option.help for option in options if option.value == following]
        return f"`adalin {name}` needs {following}: {texts[0]}" if texts else f"`adalin {name}` needs {following}"
    if match := re.match(r"Unrecognized options: ([^,]*)", said):
        return f"{match[1]!r} is one word too many; `adalin {name} --help` says what belongs there"
    return said


def _refuse_value(option: Option, value: str) -> str:
    label = option.field.name.upper() if option.is_positional else option.flag
    if option.choices:
        wanted = f"one of {', '.join(option.choices)}"
    else:
        wanted = WANTED.get(option.type, (option.value, option.value))[option.is_many]
    return f"{label} must be {wanted}, not {value}"
