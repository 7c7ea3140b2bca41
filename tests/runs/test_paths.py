"""Names that become parts of paths, and paths that become parts of messages."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adalin.runs import path_part, shown_path


@pytest.mark.parametrize("name", ["random-label-mnist-v1", "sac-Hopper-v4", "adalin+l2", "ö" * 127, "a b", "seed-3"])
def test_names_stay_as_they_are(name: str) -> None:
    assert path_part(name) == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("sac-../../../ELSEWHERE", "it has a path separator"),
        ("/etc", "it has a path separator"),
        ("a\\b", "it has a path separator"),
        ("..", "it begins with a dot"),
        (".", "it begins with a dot"),
        (".jobs", "it begins with a dot"),
        ("a\nb", "it has control characters"),
        ("a\0", "it has control characters"),
        ("\x1b[2J", "it has control characters"),
        ("a\u202eb", "it has control characters"),
        ("a\udcff", "it has control characters"),
        ("a" * 256, "it has more than 255 bytes"),
        ("ö" * 128, "it has more than 255 bytes"),
        (None, "it is not a text"),
        (3, "it is not a text"),
    ],
)
def test_what_would_lead_elsewhere_is_refused_in_one_line(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"^benchmark .* cannot be the name of a folder: {problem}$") as error:
        path_part(name, "benchmark")
    assert len(str(error.value)) < 200
    assert str(error.value).isprintable()


@given(st.text())
def test_a_part_never_leaves_its_folder(name: str) -> None:
    try:
        part = path_part(name)
    except ValueError:
        return
    path = Path("/runs", part)
    assert path.parent == Path("/runs")
    assert Path(os.path.normpath(path)) == path
    os.fsencode(path)


@given(st.binary())
def test_any_path_can_be_printed_in_one_line(name: bytes) -> None:
    shown = shown_path(os.fsdecode(name))
    shown.encode()
    assert "\n" not in shown
    assert "\x1b" not in shown


def test_an_ordinary_path_is_shown_as_it_is() -> None:
    assert shown_path(Path("runs/digits/ümlaut ü")) == "runs/digits/ümlaut ü"
