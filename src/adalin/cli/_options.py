"""Fields of commands as options of the command line: metavars, defaults and help in one form."""

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from textwrap import dedent
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import Positional, arg

from adalin.settings import Settings, specifications

METAVARS = {int: "INT", float: "FLOAT", str: "NAME", Path: "PATH"}
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Metavar(str):
    """Word for an option's value in the help, where that of its type says too little."""


class HelpGroup(str):
    """Title of a group of options that `--help-all` shows and `--help` only names."""


@dataclass(frozen=True)
class Option:
    """A field of a command."""

    field: Field[Any]
    type: Any
    """Type of its value, or of each of its values; a dataclass for a group of options."""
    is_many: bool
    metadata: tuple[Any, ...]
    """Marks of its annotation: `Positional`, `Metavar`, `HelpGroup`."""
    help: str

    @property
    def flag(self) -> str:
        """Name as it is written: --batch-size."""
        return flag(self.field.name)

    @property
    def is_group(self) -> bool:
        """Whether it is a group of options."""
        return is_dataclass(self.type)

    @property
    def is_positional(self) -> bool:
        """Whether its value is written without its name."""
        return Positional in self.metadata

    @property
    def is_required(self) -> bool:
        """Whether the command cannot do without it."""
        return self.field.default is MISSING and self.field.default_factory is MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """Texts that its value can be, if they are known."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def value(self) -> str:
        """Its value in the help: INT, {local,slurm,ray}, METHOD ..., nothing for a switch."""
        if self.type is bool:
            return ""
        word = "{" + ",".join(self.choices) + "}" if self.choices else METAVARS[self.type]
        if self.is_positional and not self.choices:
            word = self.field.name.upper()
        word = next((mark for mark in self.metadata if isinstance(mark, Metavar)), word)
        word = f"{word} ..." if self.is_many else word
        return f"[{word}]" if self.is_positional and not self.is_required else word

    @property
    def group(self) -> str | None:
        """Title of its group, if `--help` leaves that out."""
        return next((mark for mark in self.metadata if isinstance(mark, HelpGroup)), None)

    @property
    def for_tyro(self) -> Any:
        """Annotation from which tyro makes the option."""
        kind = tuple[self.type, ...] if self.is_many else self.type  # type: ignore[name-defined]
        if self.field.default is None:
            kind |= None
        described = arg(help=self.help, metavar=self.value or None, help_behavior_hint=_default_hint)
        return Annotated[(kind, described, *self.metadata)]


def flag(name: str) -> str:
    """A field as an option is written: --batch-size."""
    return f"--{name.replace('_', '-')}"


def read_options(command: type) -> list[Option]:
    """The fields of a command or group, its own before those that it inherits."""
    types = get_type_hints(command, include_extras=True)
    entries = {entry.name: entry for entry in fields(command)}
    docs: dict[str, str] = {}
    for base in command.__mro__:
        own = [name for name in inspect.get_annotations(base) if name in entries]
        documented = field_docs(base) if own else {}
        docs |= {name: entries[name].metadata.get("doc", documented.get(name, "")) for name in own if name not in docs}
    return [_read_option(entries[name], types[name], doc) for name, doc in docs.items()]


def _read_option(entry: Field[Any], declared: Any, doc: str) -> Option:
    kind, *metadata = get_args(declared) if get_origin(declared) is Annotated else (declared,)
    if NoneType in get_args(kind):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    is_many = get_origin(kind) is tuple
    kind = get_args(kind)[0] if is_many else kind
    return Option(field=entry, type=kind, is_many=is_many, metadata=tuple(metadata), help=doc)


def _default_hint(default: str) -> str:
    return f"(default: {default})" if default not in ("", "None", "False") else ""


def all_options(command: type) -> Iterator[Option]:
    """The options of a command and of its groups."""
    for option in read_options(command):
        if option.is_group:
            yield from all_options(option.type)
        else:
            yield option


def make_form(command: type, *, is_complete: bool = True) -> Any:
    """A dataclass for tyro, whose fields are those of a command; without some groups if it is not to be complete."""
    made: list[tuple[str, Any, Any]] = []
    for option in read_options(command):
        entry = option.field
        if not option.is_group:
            made.append((entry.name, option.for_tyro, field(default=entry.default)))
        elif is_complete or option.group is None:
            group = make_form(option.type)
            made.append(
                (entry.name, Annotated[group, arg(name=option.group or entry.name)], field(default_factory=group))
            )
    form = make_dataclass(command.__name__, made, frozen=True, kw_only=True)
    form.__doc__ = command.__doc__
    return form


def fill(command: type, form: Any) -> Any:
    """The command whose form is filled in."""
    options = {option.field.name: option for option in read_options(command)}
    return command(**{name: _value(options[name], value) for name, value in vars(form).items()})


def _value(option: Option, value: Any) -> Any:
    """The value of a field; raises ValueError for a text that would break lines of scripts or of messages."""
    if option.is_group:
        return fill(option.type, value)
    if option.is_many and value is not None:
        return tuple(_checked(option, single) for single in value)
    return _checked(option, value)


def _checked(option: Option, value: Any) -> Any:
    if isinstance(value, str | Path) and not option.is_positional and CONTROL.search(str(value)):
        raise ValueError(f"{option.flag} must not have control characters: {str(value)!r}")
    if not isinstance(value, Path):
        return value
    try:
        return value.expanduser()
    except RuntimeError:
        raise ValueError(f"there is no user {value.parts[0][1:]!r}, whose home {value} is in") from None


def group_titles(command: type) -> list[str]:
    """The groups that only `--help-all` shows."""
    return [option.group for option in read_options(command) if option.group is not None]


def make_options(
    settings: type[Settings],
    names: Iterable[str],
    *,
    also: type[Settings] | None = None,
    shows_defaults: bool = False,
) -> type:
    """A base class with an option for each of some settings; one that is left out is None, and a switch False.

    Args:
        settings: the settings of one kind of runs.
        names: which of them.
        also: the settings of sac, where the same names may mean something else.
        shows_defaults: whether the help has the settings' own defaults, which no benchmark changes.
    """
    types, specs, docs = get_type_hints(settings), specifications(settings), field_docs(settings)
    of_sac = {} if also is None else field_docs(also)
    made: list[tuple[str, Any, Any]] = []
    for name in names:
        doc = f"{docs[name]} In sac: {_within(of_sac[name])}" if name in of_sac else docs[name]
        if shows_defaults:
            doc = f"{doc} {_default_hint(str(settings.defaults()[name]))}".strip()
        kind = Literal[specs[name]["choices"]] if specs[name]["choices"] else types[name]
        is_switch = kind is bool
        default = field(default=False if is_switch else None, metadata={"doc": doc})
        made.append((name, kind if is_switch else kind | None, default))
    return make_dataclass(settings.__name__, made, frozen=True, kw_only=True)


def _within(doc: str) -> str:
    return doc[0].lower() + doc[1:]


def given(options: Any) -> dict[str, Any]:
    """The options that somebody has chosen."""
    return {name: value for name, value in vars(options).items() if value is not None and value is not False}


def changed(command: Any) -> list[str]:
    """The options whose values are not the defaults, as they are written."""
    found = []
    for option in read_options(type(command)):
        value = getattr(command, option.field.name)
        if option.is_group:
            found += changed(value)
        elif value != option.field.default and not option.is_positional:
            found.append(option.flag)
    return found


def allow(command: Any, names: Collection[str], where: str) -> None:
    """Refuse options that have no effect: all that somebody has chosen but those of some fields."""
    flags = {flag(name) for name in names}
    for option in changed(command):
        if option not in flags:
            raise ValueError(f"{option} has no effect {where}: leave it out")


def field_docs(documented: type) -> dict[str, str]:
    """The docstring under each field of a dataclass that is written down somewhere."""
    try:
        tree = ast.parse(dedent(inspect.getsource(documented))).body[0]
    except (OSError, TypeError):  # a class that was made
        return {}
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    name = ""
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and name:
            found[name] = " ".join(str(statement.value.value).split())
            name = ""
    return found
