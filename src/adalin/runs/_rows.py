"""The rows of a run as lines of JSON: {"task": 0, "loss": 0.5, "alpha": [[0.1, null], null]}.

A value is a finite number, null, or a list or an object of such.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from adalin.runs._disk import RunFolderError
from adalin.runs._paths import shown_path
from adalin.runs._schema import decode

Row = dict[str, Any]

MOST_BYTES = 1 << 29
"""Size of the largest file of rows."""
MOST_TASKS = 1_000_000
"""Tasks of the longest run."""
HINT = "restore the file or delete the folder to start the run anew"

_LARGEST_INT = 2**63
_NUMBERS = {int, float}


def row_line(row: Row) -> bytes:
    """A row as a line. NaN and infinities become null; what could not be read again is refused."""
    finite = _finite(row)
    if problem := _wrong_row(finite, row["task"]):
        raise RunFolderError(f"the row of task {row['task']} cannot be saved: {problem}")
    return (json.dumps(finite, separators=(",", ":"), allow_nan=False) + "\n").encode()


def parse_rows(data: bytes, path: Path | str) -> list[Row]:
    """The rows of a file, none missing; a torn last line is none. RunFolderError names the first line that is wrong."""
    lines = data.split(b"\n")
    lines.pop()  # empty, or torn: the process died, or the disk was full, while it was written
    return [_parse(line, task, path) for task, line in enumerate(lines)]


def complete_lines(data: bytes) -> bytes:
    """Without the last line if its end is missing."""
    return data[: data.rfind(b"\n") + 1]


def first_lines(data: bytes, count: int) -> bytes:
    """The first lines, or all that are complete if there are fewer."""
    data = complete_lines(data)
    if data.count(b"\n") <= count:
        return data
    return b"".join(data.splitlines(keepends=True)[:count])


def rows_digest(data: bytes, tasks: int) -> str:
    """What a checkpoint after so many tasks says of a file of rows: the SHA-256 of theirs."""
    return hashlib.sha256(first_lines(data, tasks)).hexdigest()


def _parse(line: bytes, task: int, path: Path | str) -> Row:
    try:
        row = decode(line)
        problem = _wrong_row(row, task)
    except ValueError:
        problem = "not JSON"
    except RecursionError:
        problem = "nested too deeply"
    if problem:
        raise RunFolderError(f"line {task + 1} of {shown_path(path)} is damaged: {problem}; {HINT}")
    return row


def _wrong_row(row: Any, task: int) -> str | None:
    """What is wrong with a row, in a few words."""
    if not isinstance(row, dict):
        return "not a JSON object"
    if type(row.get("task")) is not int or row["task"] != task:
        return f"it is not the row of task {task}"
    for name, value in row.items():
        if not _is_plain(value):
            return f"{json.dumps(name)[:40]} is not a number, null, or a list or an object of such"
    return None


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if value is None:
        return True
    if kind is int:
        return -_LARGEST_INT <= value < _LARGEST_INT
    if kind is dict:
        value = list(value.values())
    elif kind is not list:
        return False
    # Most of a row are long lists of numbers: two passes of C instead of a call for each.
    if set(map(type, value)) <= _NUMBERS and _is_small(value):
        return True
    return all(map(_is_plain, value))


def _is_small(numbers: list[float]) -> bool:
    """Whether a list of numbers has none that is infinite or large, as far as can be told at once."""
    return not numbers or (max(numbers) < _LARGEST_INT and min(numbers) >= -_LARGEST_INT)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
