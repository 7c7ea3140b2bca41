"""A file of JSON is as its schema says, or is refused in one line that says where it is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strange_files
from adalin.runs import RunFolderError, Schema, parse_json, read_json

SCHEMA = Schema(
    {
        "name": str,
        "count?": range(0, 10),
        "share?": float,
        "state?": {"done", "stopped"},
        "data?": (None, {"source": str, "parts?": [(int, str)]}),
        "on?": bool,
        "any?": object,
        str: (None, float),
    }
)


@pytest.mark.parametrize(
    "value",
    [
        {"name": ""},
        {"name": "a", "count": 9, "share": 1, "state": "done", "data": None, "on": True, "any": [{}], "more": 2.5},
        {"name": "a", "share": -1.7e308, "data": {"source": "b", "parts": [1, "c"], "more": []}, "more": None},
    ],
)
def test_what_is_right_comes_back(value: Any, tmp_path: Path) -> None:
    assert SCHEMA.mismatch(value) is None
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "x.json", SCHEMA) == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "it is a list, not an object"),
        (None, "it is null, not an object"),
        ({}, "name is missing"),
        ({"name": 3}, "name is 3, not a text"),
        ({"name": True}, "name is true, not a text"),
        ({"name": "a", "count": 10}, "count is 10, not a whole number from 0 to 9"),
        ({"name": "a", "count": True}, "count is true, not a whole number from 0 to 9"),
        ({"name": "a", "count": 2.0}, "count is 2.0, not a whole number from 0 to 9"),
        ({"name": "a", "count": "3"}, 'count is "3", not a whole number from 0 to 9'),
        ({"name": "a", "share": False}, "share is false, not a finite number"),
        ({"name": "a", "share": 10**400}, "share is 100000000000000000000000000000..., not a finite number"),
        ({"name": "a", "state": "new"}, 'state is "new", not one of done, stopped'),
        ({"name": "a", "state": ["done"]}, "state is a list, not one of done, stopped"),
        ({"name": "a", "data": 3}, "data is 3, not null or an object"),
        ({"name": "a", "data": {"source": 3}}, "data.source is 3, not a text"),
        ({"name": "a", "data": {}}, "data.source is missing"),
        (
            {"name": "a", "data": {"source": "b", "parts": [1, None]}},
            "data.parts[1] is null, not a whole number or a text",
        ),
        ({"name": "a", "\x1b[2J": "b"}, '"\\u001b[2J" is "b", not null or a finite number'),
    ],
)
def test_what_is_wrong_is_named(value: Any, problem: str) -> None:
    assert SCHEMA.mismatch(value) == problem
    with pytest.raises(RunFolderError) as error:
        parse_json(json.dumps(value).encode(), SCHEMA, "a/x.json", hint="do this")
    assert str(error.value) == f"a/x.json is damaged: {problem}; do this"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON"),
        (b'{"name": ', "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (b'{"name": "a", "more": NaN}', "not JSON"),
        (b'{"name": "a", "more": -Infinity}', "not JSON"),
        (b'{"name": "a", "more": 1e400}', "more is Infinity, not null or a finite number"),
        (b'{"name": "a", "more": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"name": "a", "any": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_what_is_no_json_is_one_line(data: bytes, problem: str) -> None:
    with pytest.raises(RunFolderError) as error:
        parse_json(data, SCHEMA, "x.json")
    assert str(error.value) == f"x.json is damaged: {problem}; restore or delete it"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("gone", "No such file or directory"),
        ("pipe", "it is not a regular file"),
        ("folder", "it is not a regular file"),
        ("endless", "it is not a regular file"),
        ("loop", "it is a symbolic link"),
        ("huge", "it has 1,099,511,627,776 bytes, and no such file has more than 4,000,000"),
    ],
)
def test_what_is_no_file_is_one_line(kind: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    strange_files.put(kind, path)
    with pytest.raises(RunFolderError) as error:
        read_json(path, SCHEMA)
    assert str(error.value) == f"cannot read {path}: {problem}"


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_text('{"name": "a"}')
    (tmp_path / "x.json").symlink_to(tmp_path / "target")
    assert read_json(tmp_path / "x.json", SCHEMA) == {"name": "a"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["name", "count", "data"]), inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_read_fits_or_is_refused_in_one_line(data: bytes) -> None:
    try:
        value = parse_json(data, SCHEMA, "x.json")
    except RunFolderError as error:
        message = str(error)
    else:
        message = ""
        assert isinstance(value["name"], str)
        assert value.get("count", 0) in range(10)
    assert message.isprintable()
