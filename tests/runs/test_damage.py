"""Whatever is in the files of a run: what is read is right, or refused in one line, at once and in little memory."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strange_files
from adalin.runs import Checkpoint, RunFolder, RunFolderError
from runs.run_folders import CONFIG, MANIFEST, checkpoints, trained

FILES = ("config.json", "manifest.json", "rows.jsonl", "cost.json", "checkpoint", "lock")
READERS: dict[str, Callable[[RunFolder], object]] = {
    "config": RunFolder.config,
    "manifest": RunFolder.manifest,
    "rows": RunFolder.rows,
    "cost": RunFolder.cost,
    "peek": RunFolder.peek,
    "held_by": RunFolder.held_by,
    "last_held_by": RunFolder.last_held_by,
    "load": lambda folder: folder.load(lambda message: None),
    "snapshot": RunFolder.snapshot,
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with one checkpoint, which nobody changes."""
    folder = trained(tmp_path_factory.mktemp("runs") / "whole", tasks=2)
    folder.add_cost(2.0)
    with folder.lock():
        pass
    return folder


@pytest.fixture(scope="module")
def copy(whole: RunFolder) -> RunFolder:
    """One whose files come and go."""
    return RunFolder(Path(shutil.copytree(whole.path, whole.path.with_name("copy"))))


def file_of(folder: RunFolder, name: str) -> Path:
    return checkpoints(folder)[-1] if name == "checkpoint" else folder.path / name


def read_all(folder: RunFolder) -> dict[str, object]:
    """What all readers give, and what those say that refuse."""
    found: dict[str, object] = {}
    for name, read in READERS.items():
        try:
            found[name] = read(folder)
        except RunFolderError as error:
            found[name] = error
    refusals = [str(refusal) for refusal in found.values() if isinstance(refusal, RunFolderError)]
    assert all(refusal.isprintable() and len(refusal) < 1_000 for refusal in refusals), "lines for a terminal"
    return found


def with_content(whole: RunFolder, copy: RunFolder, name: str, data: bytes) -> dict[str, object]:
    """What readers say if a file has this content; it is mended again."""
    path = file_of(copy, name)
    path.write_bytes(data)
    try:
        return read_all(copy)
    finally:
        path.write_bytes(file_of(whole, name).read_bytes())


def test_a_whole_run_is_read_by_all(whole: RunFolder) -> None:
    assert not [name for name, found in read_all(whole).items() if isinstance(found, RunFolderError)]


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_no_bytes_are_more_than_a_line(whole: RunFolder, copy: RunFolder, name: str, data: st.DataObject) -> None:
    with_content(whole, copy, name, data.draw(st.binary() | JSON.map(lambda value: json.dumps(value).encode())))


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_no_small_change_is_more_than_a_line(whole: RunFolder, copy: RunFolder, name: str, data: st.DataObject) -> None:
    intact = file_of(whole, name).read_bytes()
    changed = bytearray(intact)
    last = min(len(intact), 2_000)  # where the header is, and not one of a hundred thousand numbers
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, last))
        changed[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    found = with_content(whole, copy, name, bytes(changed))
    if name in ("rows.jsonl", "checkpoint") and not changed.startswith(intact):
        assert isinstance(found["load"], RunFolderError)
        assert isinstance(found["snapshot"], RunFolderError) or found["snapshot"] == whole.snapshot()


def replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    """JSON with another value in one place."""
    if not path:
        return value
    copy = content.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def places(content: Any) -> list[tuple[Any, ...]]:
    """All places in JSON that a value has."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [(), *((key, *rest) for key, item in items for rest in places(item))]


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "cost.json", "rows.jsonl"])
@given(data=st.data())
def test_no_value_in_the_place_of_another_is_more_than_a_line(
    whole: RunFolder, copy: RunFolder, name: str, data: st.DataObject
) -> None:
    first, *others = file_of(whole, name).read_bytes().splitlines() if name == "rows.jsonl" else [b"", b""]
    content = json.loads(first or file_of(whole, name).read_bytes())
    changed = replaced(content, data.draw(st.sampled_from(places(content))), data.draw(JSON))
    with_content(whole, copy, name, b"\n".join([json.dumps(changed).encode(), *others, b""]))


@given(JSON | st.fixed_dictionaries({"task": JSON, "step": JSON}), JSON)
def test_no_position_with_a_right_hash_is_more_than_a_line(
    whole: RunFolder, copy: RunFolder, position: Any, pieces: Any
) -> None:
    path = forged(whole, copy, position=json.dumps(position), pieces=json.dumps(pieces))
    try:
        found = read_all(copy)
    finally:
        path.unlink()
    if isinstance(found["snapshot"], RunFolderError):
        assert "position" in str(found["snapshot"]) or "rows" in str(found["snapshot"])


def forged(whole: RunFolder, copy: RunFolder, **changes: str) -> Path:
    """A newer checkpoint with other metadata, whose hashes are right."""
    data = checkpoints(whole)[-1].read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header["__metadata__"] |= changes
    text = json.dumps(header).encode()
    head = len(text).to_bytes(8, "little") + text
    path = copy.path / f"checkpoint-00000009-{hashlib.sha256(head).hexdigest()}.safetensors"
    path.write_bytes(head + data[start:])
    return path


@pytest.mark.parametrize(
    ("position", "problem"),
    [
        ({}, "position.task is missing"),
        ([], "position is a list, not an object"),
        ({"task": "3", "step": 0}, r'position.task is "3", not a whole number from 0 to 1,000,000'),
        ({"task": 2.5, "step": 0}, "position.task is 2.5, not a whole"),
        ({"task": 10**12, "step": 0}, "position.task is 1000000000000, not a whole"),
        ({"task": 2, "step": None}, "position.step is null, not a whole"),
        ({"task": 2, "step": 0, "state": ["done"]}, "position.state is a list, not one of diverged, done, running"),
    ],
)
def test_a_forged_position_is_named_and_the_checkpoint_before_it_used(
    whole: RunFolder, copy: RunFolder, position: Any, problem: str
) -> None:
    path = forged(whole, copy, position=json.dumps(position))
    warnings: list[str] = []
    try:
        loaded, snapshot = copy.load(warnings.append), copy.snapshot(warnings.append)
        assert (copy.peek() or {})["task"] == 2
    finally:
        path.unlink()
    assert loaded is not None
    assert loaded.position == snapshot.position == {"task": 2, "step": 0}
    assert len(warnings) == 2
    assert all(problem in warning and str(path) in warning for warning in warnings)


def test_a_deep_position_is_refused(whole: RunFolder, copy: RunFolder) -> None:
    path = forged(whole, copy, position="[" * 100_000 + "]" * 100_000)
    warnings: list[str] = []
    try:
        assert copy.snapshot(warnings.append).position == {"task": 2, "step": 0}
    finally:
        path.unlink()
    assert "nested too deeply" in warnings[0] or "recursion" in warnings[0]


@pytest.mark.parametrize(
    ("name", "field", "value", "problem"),
    [
        ("config.json", "method", ["l2"], "method is a list, not a text"),
        ("config.json", "method", None, "method is null, not a text"),
        ("config.json", "benchmark", 5, "benchmark is 5, not a text"),
        ("config.json", "lr", 10**400, "lr is 1000"),
        ("config.json", "lr", [[]], "lr[0] is a list, not null or true or false or a finite number or a text"),
        ("manifest.json", "data", {"source": 3}, "data.source is 3, not a text"),
        ("manifest.json", "versions", [], "versions is a list, not an object"),
        ("manifest.json", "machine", None, "machine is null, not an object"),
        ("manifest.json", "protocol", None, "protocol is null, not an object"),
        ("manifest.json", "resumed", "yes", 'resumed is "yes", not a list'),
        ("manifest.json", "resumed", [{"commit": 3}], "resumed[0].commit is 3, not null or a text"),
        ("manifest.json", "commit", 3, "commit is 3, not null or a text"),
        ("manifest.json", "tasks", 10**12, "tasks is 1000000000000, not a whole number from 1 to 1,000,000"),
    ],
)
def test_a_wrong_value_is_named(
    whole: RunFolder, copy: RunFolder, name: str, field: str, value: Any, problem: str
) -> None:
    content = (CONFIG if name == "config.json" else MANIFEST) | {field: value}
    found = with_content(whole, copy, name, json.dumps(content).encode())["snapshot"]
    assert isinstance(found, RunFolderError)
    assert str(found).startswith(f"{copy.path / name} is damaged: {problem}")
    assert str(found).endswith("; restore it or delete the folder to start the run anew")


@pytest.mark.parametrize("content", ["[]", "null", '{"core_seconds": null}', '{"core_seconds": 1e999}', "[" * 99_999])
def test_a_damaged_cost_is_nothing_to_stop_for(whole: RunFolder, copy: RunFolder, content: str) -> None:
    assert with_content(whole, copy, "cost.json", content.encode())["cost"] == 0.0


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", strange_files.KINDS)
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_neither_waited_for_nor_read(name: str, kind: str, tmp_path: Path) -> None:
    folder = trained(tmp_path / "run", tasks=2)
    folder.add_cost(2.0)
    with folder.lock():
        pass
    strange_files.put(kind, file_of(folder, name))
    found = read_all(folder)
    if name in ("config.json", "manifest.json", "rows.jsonl", "checkpoint"):
        refused = found["snapshot"]
        assert isinstance(refused, RunFolderError)
        assert str(folder.path) in str(refused)


def test_a_header_that_has_no_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trained(tmp_path, tasks=2)
    (path,) = checkpoints(folder)
    with path.open("r+b") as file:
        file.write((1 << 39).to_bytes(8, "little"))
        file.truncate(1 << 40)
    read, sizes = os.read, []
    monkeypatch.setattr(os, "read", lambda descriptor, count: sizes.append(count) or read(descriptor, count))
    assert folder.peek() is None
    with pytest.raises(RunFolderError, match=r"all checkpoints in .* are damaged"):
        folder.load(lambda message: None)
    assert max(sizes) < 1_000_000


def test_a_checkpoint_that_is_deleted_while_it_is_looked_for_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained(tmp_path, tasks=1)
    open_file, writes = os.open, 2

    def slow(path: Any, *arguments: Any, **options: Any) -> int:
        nonlocal writes
        if writes and "checkpoint-" in str(path) and not arguments[0] & os.O_CREAT:
            writes -= 1
            for step in (1, 2):  # after which the one that was found is gone
                folder.save(Checkpoint({"weight": torch.ones(1)}, {"task": 1, "step": step}))
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(os, "open", slow)
    assert folder.peek() == {"task": 1, "step": 2}
    assert not writes
