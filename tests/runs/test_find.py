"""All runs below a folder are found, once, wherever links lead."""

import os
from pathlib import Path

import pytest

from adalin.runs import RunFolder
from failing_disk import folder_to_protect


def make(*paths: Path) -> None:
    for path in paths:
        path.mkdir(parents=True)
        (path / "config.json").touch()


def found(root: Path) -> list[Path]:
    return [folder.path for folder in RunFolder.find(root)]


def test_runs_are_found_in_the_order_of_their_paths(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b/1", "a/2", "a/1", "a-b/1", "a.b")]
    make(*paths)
    (tmp_path / "not a run" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert found(tmp_path) == sorted(paths)
    assert found(paths[0]) == [paths[0]]
    assert found(tmp_path / "missing") == []
    assert found(tmp_path / "file") == []


def test_a_relative_folder_gives_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "runs" / "a")
    monkeypatch.chdir(tmp_path)
    assert found(Path("runs")) == found(Path("./runs/")) == [Path("runs/a")]
    assert found(Path()) == [Path("runs/a")]
    monkeypatch.chdir(tmp_path / "runs" / "a")
    assert found(Path()) == [Path()]


@pytest.mark.parametrize("moved", ["seed-3", ".", ".."], ids=["seed", "method", "benchmark"])
def test_runs_that_were_moved_and_linked_are_found_where_they_were(moved: str, tmp_path: Path) -> None:
    method = tmp_path / "out" / "benchmark" / "method"
    make(method / "seed-3", method / "seed-4")
    place = Path(os.path.normpath(method / moved))
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path / "out") == [method / "seed-3", method / "seed-4"]


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    make(tmp_path / "disk" / "a")
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    assert found(tmp_path / "out") == [tmp_path / "out" / "a"]


@pytest.mark.timeout(10)
def test_loops_have_an_end_and_nothing_is_found_twice(tmp_path: Path) -> None:
    make(tmp_path / "b" / "1", tmp_path / "b" / "2")
    for name, target in {"a": "b", "c": "b", "b/up": "..", "b/self": ".", "d": "b/1", "e": "e", "f": "gone"}.items():
        (tmp_path / name).symlink_to(target)
    assert found(tmp_path) == [tmp_path / "b" / "1", tmp_path / "b" / "2"]


def test_two_links_that_lead_to_the_same_outside_give_it_once(tmp_path: Path) -> None:
    make(tmp_path / "disk" / "x" / "1", tmp_path / "disk" / "y" / "2")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "disk" / "x")
    (tmp_path / "out" / "b").symlink_to(tmp_path / "disk")
    (tmp_path / "out" / "c").symlink_to(tmp_path / "disk" / "y")
    assert found(tmp_path / "out") == [tmp_path / "out" / "a" / "1", tmp_path / "out" / "b" / "y" / "2"]


def test_a_folder_that_may_not_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    with folder_to_protect() as (folder, read_only):
        make(folder / "a", folder / "b" / "1")
        (folder / "b").chmod(0)
        with read_only:
            assert found(folder) == [folder / "a"]
        (folder / "b").chmod(0o755)


def test_names_that_are_no_utf8_are_found(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    make(path)
    assert found(tmp_path) == [path]
