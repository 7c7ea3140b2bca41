"""The replay buffer: the last transitions, in memory and, piece by piece, on disk."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

import strange_files
from adalin.rl._replay import ReplayBuffer
from adalin.runs import CheckpointError
from failing_disk import largest_file

OBSERVATION, ACTION = 3, 2


pytestmark = pytest.mark.usefixtures("_no_waiting_for_the_disk")


def add(buffer: ReplayBuffer, count: int) -> ReplayBuffer:
    """Transitions whose numbers tell which they are."""
    for number in range(buffer.added, buffer.added + count):
        observation, action = torch.full((OBSERVATION,), number + 0.1), torch.full((ACTION,), number + 0.2)
        buffer.add(observation.double().numpy(), action.numpy(), number + 0.3, number % 3 == 0, observation + 0.3)
    return buffer


def filled(size: int, count: int) -> ReplayBuffer:
    return add(ReplayBuffer(size, OBSERVATION, ACTION), count)


def content(buffer: ReplayBuffer) -> Tensor:
    """All rows that are filled, in their places."""
    return buffer._rows[: len(buffer)].clone()


def numbers_in(buffer: ReplayBuffer) -> list[int]:
    return sorted(round(value - 0.1) for value in content(buffer)[:, 0].tolist())


def pieces(folder: Path) -> list[tuple[int, int]]:
    names = sorted(path.name for path in folder.glob("replay-*.safetensors"))
    return [(int(name.split("-")[1]), int(name.split("-")[2])) for name in names]


def listed(folder: Path, size: int, added: int) -> list[str]:
    """The pieces on disk that a checkpoint after so many transitions has named."""
    names = sorted(path.name for path in folder.glob("replay-*.safetensors"))
    return [name for name in names if added - size < int(name.split("-")[2]) <= added]


def loaded(folder: Path, size: int, added: int, names: Sequence[str] | None = None) -> ReplayBuffer:
    buffer = ReplayBuffer(size, OBSERVATION, ACTION)
    buffer.load(folder, added, listed(folder, size, added) if names is None else names)
    return buffer


def assert_same(buffer: ReplayBuffer, other: ReplayBuffer) -> None:
    assert (buffer.added, len(buffer)) == (other.added, len(other))
    assert torch.equal(content(buffer), content(other))


# in memory


@pytest.mark.parametrize(("count", "kept"), [(0, range(0)), (4, range(4)), (10, range(10)), (23, range(13, 23))])
def test_the_last_transitions_are_kept(count: int, kept: range) -> None:
    buffer = filled(10, count)
    assert len(buffer) == len(kept)
    assert buffer.added == count
    assert numbers_in(buffer) == list(kept)


def test_a_sample_has_its_parts_side_by_side() -> None:
    buffer = filled(50, 40)
    batch = buffer.sample(64, torch.Generator().manual_seed(0))
    shapes = [tuple(part.shape) for part in (batch.pairs, batch.rewards, batch.terminated, batch.next_observations)]
    assert shapes == [(64, OBSERVATION + ACTION), (64, 1), (64, 1), (64, OBSERVATION)]
    numbers = (batch.rewards - 0.3).round()
    torch.testing.assert_close(batch.pairs[:, :OBSERVATION], (numbers + 0.1).expand(-1, OBSERVATION))
    torch.testing.assert_close(batch.pairs[:, OBSERVATION:], (numbers + 0.2).expand(-1, ACTION))
    torch.testing.assert_close(batch.next_observations, (numbers + 0.4).expand(-1, OBSERVATION))
    assert torch.equal(batch.terminated, (numbers % 3 == 0).float())


@pytest.mark.parametrize("count", [1, 7, 10, 34])
def test_samples_come_from_all_filled_rows_and_no_others(count: int) -> None:
    buffer = filled(10, count)
    seen = buffer.sample(1_000, torch.Generator().manual_seed(1)).pairs[:, 0]
    assert sorted({round(value - 0.1) for value in seen.tolist()}) == numbers_in(buffer)


def test_samples_depend_on_the_generator_only() -> None:
    buffer = filled(100, 80)
    first, second, other = (torch.Generator().manual_seed(seed) for seed in (5, 5, 6))
    torch.manual_seed(1)
    one = [buffer.sample(16, first).pairs for _ in range(2)]
    torch.manual_seed(2)
    same = [buffer.sample(16, second).pairs for _ in range(2)]
    assert torch.equal(one[0], same[0])
    assert torch.equal(one[1], same[1])
    assert not torch.equal(*one)
    assert not torch.equal(one[0], buffer.sample(16, other).pairs)


def test_a_sample_stays_as_it_was_when_its_rows_are_overwritten() -> None:
    buffer = filled(10, 10)
    batch = buffer.sample(8, torch.Generator().manual_seed(0))
    before = batch.pairs.clone()
    add(buffer, 10)
    assert torch.equal(batch.pairs, before)


def test_pairs_are_spread_from_the_first_row_to_the_last() -> None:
    pairs = filled(1_000, 101).spread_pairs(5)
    assert pairs.shape == (5, OBSERVATION + ACTION)
    torch.testing.assert_close(pairs[:, 0], torch.tensor([0.0, 25.0, 50.0, 75.0, 100.0]) + 0.1)
    assert len(filled(1_000, 3).spread_pairs(5)) == 3


# on disk


@pytest.mark.parametrize("size", [1_000, 40, 13, 5])
def test_what_is_loaded_is_what_was_saved(size: int, tmp_path: Path) -> None:
    buffer, kept = filled(size, 0), 0
    for more in (3, 1, 0, 20, 7, 13, 40, 2):
        add(buffer, more)
        buffer.save(tmp_path, keep_from=kept)
        kept = buffer.added
        assert_same(loaded(tmp_path, size, buffer.added), buffer)
    assert numbers_in(buffer) == list(range(max(0, kept - size), kept))


@pytest.mark.parametrize("size", [1_000, 40, 13, 5])
def test_the_state_before_the_last_save_can_be_loaded_too(size: int, tmp_path: Path) -> None:
    """The newest checkpoint may be damaged, or may never have been written."""
    counts = (3, 1, 20, 7, 13, 40, 2)
    buffer, kept = filled(size, 0), 0
    for more in counts:
        before = filled(size, buffer.added)
        add(buffer, more)
        buffer.save(tmp_path, keep_from=kept)
        copy = tmp_path / f"copy at {buffer.added}"
        copy.mkdir()
        for path in tmp_path.glob("replay-*"):
            (copy / path.name).write_bytes(path.read_bytes())
        assert_same(loaded(copy, size, kept), before)
        kept = buffer.added


@pytest.mark.parametrize("size", [1_000, 13])
def test_pieces_that_came_later_are_deleted_and_made_again(size: int, tmp_path: Path) -> None:
    buffer = filled(size, 10)
    buffer.save(tmp_path, keep_from=0)
    add(buffer, 10).save(tmp_path, keep_from=10)
    assert pieces(tmp_path) == [(0, 10), (10, 20)]
    again = loaded(tmp_path, size, 10)
    assert pieces(tmp_path) == [(0, 10)]
    assert_same(again, filled(size, 10))
    add(again, 5).save(tmp_path, keep_from=10)
    assert pieces(tmp_path) == [(0, 10), (10, 15)]
    assert_same(loaded(tmp_path, size, 15), filled(size, 15))


def test_loading_nothing_deletes_all_pieces(tmp_path: Path) -> None:
    filled(100, 10).save(tmp_path, keep_from=0)
    assert len(loaded(tmp_path, 100, 0)) == 0
    assert pieces(tmp_path) == []


def test_pieces_that_nobody_needs_are_deleted(tmp_path: Path) -> None:
    buffer = filled(20, 0)
    for kept in range(0, 100, 10):
        add(buffer, 10).save(tmp_path, keep_from=kept)
    assert buffer.added == 100
    assert pieces(tmp_path) == [(70, 80), (80, 90), (90, 100)]  # 90 is where one may have to go on from
    assert_same(loaded(tmp_path, 20, 100), buffer)


def test_what_was_overwritten_before_it_was_saved_is_not_written(tmp_path: Path) -> None:
    buffer = filled(10, 5)
    buffer.save(tmp_path, keep_from=0)
    add(buffer, 45).save(tmp_path, keep_from=5)
    assert pieces(tmp_path) == [(0, 5), (40, 50)]
    assert_same(loaded(tmp_path, 10, 50), buffer)


def test_a_save_writes_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    buffer = filled(10_000, 4_000)
    buffer.save(tmp_path, keep_from=0)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    size = 4 * (2 * OBSERVATION + ACTION + 2)
    for more in (1, 100, 200, 400):
        known = set(tmp_path.iterdir())
        add(buffer, more).save(tmp_path, keep_from=buffer.added)
        (new,) = set(tmp_path.iterdir()) - known
        assert 0 < new.stat().st_size - more * size < 200  # the header
    known = set(tmp_path.iterdir())
    buffer.save(tmp_path, keep_from=buffer.added)
    assert set(tmp_path.iterdir()) == known, "nothing is new"
    for name, written in before.items():
        assert (tmp_path / name).stat().st_mtime_ns == written


def test_nothing_but_pieces_is_left_in_the_folder(tmp_path: Path) -> None:
    filled(10, 5).save(tmp_path, keep_from=0)
    (piece,) = tmp_path.iterdir()
    digest = hashlib.sha256(piece.read_bytes()).hexdigest()
    assert piece.name == f"replay-0000000000-0000000005-{digest}.safetensors"


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "replay-notes.txt").write_text("mine")
    buffer = filled(10, 5)
    buffer.save(tmp_path, keep_from=0)
    add(buffer, 30).save(tmp_path, keep_from=35)
    assert_same(loaded(tmp_path, 10, 35), buffer)
    loaded(tmp_path, 10, 0)
    assert (tmp_path / "replay-notes.txt").read_text() == "mine"


# damage


def three_pieces(folder: Path) -> list[Path]:
    buffer = filled(100, 0)
    for kept in (0, 10, 20):
        add(buffer, 10).save(folder, keep_from=kept)
    return sorted(folder.glob("replay-*"))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_damaged_piece_is_named_with_what_to_do(which: int, tmp_path: Path) -> None:
    path = three_pieces(tmp_path)[which]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as error:
        loaded(tmp_path, 100, 30)
    assert str(error.value) == (
        f"{path} is damaged: its content does not match the hash in its name; "
        "restore it or delete the folder to start the run anew"
    )


def test_a_torn_piece_is_noticed(tmp_path: Path) -> None:
    path = three_pieces(tmp_path)[1]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="is damaged"):
        loaded(tmp_path, 100, 30)


def test_a_piece_that_is_not_safetensors_is_named_with_what_to_do(tmp_path: Path) -> None:
    old = three_pieces(tmp_path)[1]
    data = b"something else"
    path = old.rename(tmp_path / f"replay-0000000010-0000000020-{hashlib.sha256(data).hexdigest()}.safetensors")
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as error:
        loaded(tmp_path, 100, 30)
    message = str(error.value)
    assert message.startswith(f"{path} cannot be read (")
    assert message.endswith("); restore it or delete the folder to start the run anew")
    assert "\n" not in message


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_piece_is_named_with_what_to_do(which: int, tmp_path: Path) -> None:
    paths = three_pieces(tmp_path)
    paths[which].unlink()
    with pytest.raises(CheckpointError) as error:
        loaded(tmp_path, 100, 30, [path.name for path in paths])
    assert str(error.value) == (
        f"cannot read {paths[which]}: No such file or directory; restore it or delete the folder to start the run anew"
    )


@pytest.mark.parametrize(("which", "lacking"), [(0, 0), (1, 10), (2, 20)])
def test_a_checkpoint_that_does_not_name_all_pieces_is_refused(which: int, lacking: int, tmp_path: Path) -> None:
    names = [path.name for path in three_pieces(tmp_path)]
    del names[which]
    with pytest.raises(CheckpointError, match=f"names no pieces with transitions {lacking} to 30 of its replay buffer"):
        loaded(tmp_path, 100, 30, names)


def test_a_damaged_piece_that_nobody_needs_does_no_harm(tmp_path: Path) -> None:
    three_pieces(tmp_path)[0].write_bytes(b"")
    assert numbers_in(loaded(tmp_path, 15, 30)) == list(range(15, 30))


# pieces of others


def test_a_save_names_the_pieces_that_it_counts_on(tmp_path: Path) -> None:
    buffer, kept = filled(20, 0), 0
    for more in (3, 9, 0, 15, 45):
        names = add(buffer, more).save(tmp_path, keep_from=kept)
        kept = buffer.added
        assert list(names) == listed(tmp_path, 20, kept)
        assert_same(loaded(tmp_path, 20, kept, names), buffer)


def test_a_buffer_that_goes_on_names_the_pieces_from_before(tmp_path: Path) -> None:
    first = filled(100, 10).save(tmp_path, keep_from=0)
    again = add(loaded(tmp_path, 100, 10, first), 5)
    names = again.save(tmp_path, keep_from=10)
    assert names[:1] == first
    assert_same(loaded(tmp_path, 100, 15, names), again)


def of_another_run(folder: Path, count: int = 10, scale: float = 0.5, **changes: Any) -> str:
    """A piece with a right hash that no checkpoint here names, or one that is no piece of this buffer."""
    shape = changes.get("shape", (count, 2 * OBSERVATION + ACTION + 2))
    rows = torch.full(shape, scale, dtype=changes.get("dtype", torch.float32))
    data = safetensors.torch.save({changes.get("key", "transitions"): rows})
    name = f"replay-{0:010d}-{count:010d}-{hashlib.sha256(data).hexdigest()}.safetensors"
    (folder / name).write_bytes(data)
    return name


def test_pieces_that_the_checkpoint_does_not_name_are_not_used_and_are_deleted(tmp_path: Path) -> None:
    buffer = filled(100, 10)
    names = buffer.save(tmp_path, keep_from=0)
    foreign = [of_another_run(tmp_path, scale=scale) for scale in range(100)]
    assert min(foreign) < names[0] < max(foreign), "whichever comes first"
    assert_same(loaded(tmp_path, 100, 10, names), buffer)
    assert [path.name for path in tmp_path.iterdir()] == list(names)


def test_a_new_run_does_not_take_pieces_that_are_there(tmp_path: Path) -> None:
    of_another_run(tmp_path)
    buffer = filled(100, 10)
    assert_same(loaded(tmp_path, 100, 10, buffer.save(tmp_path, keep_from=0)), buffer)


def test_nothing_is_deleted_if_a_piece_is_missing(tmp_path: Path) -> None:
    foreign = of_another_run(tmp_path)
    with pytest.raises(CheckpointError, match="No such file"):
        loaded(tmp_path, 100, 10, [f"{foreign[:29]}{'f' * 64}.safetensors"])
    assert (tmp_path / foreign).exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (10, 9)},
        {"shape": (1, 10)},
        {"shape": (9, 10)},
        {"shape": (100,)},
        {"dtype": torch.bfloat16},
        {"dtype": torch.float64},
        {"dtype": torch.int32},
        {"key": "others"},
    ],
    ids=str,
)
def test_a_piece_of_another_form_is_refused_in_one_line(changes: dict[str, Any], tmp_path: Path) -> None:
    name = of_another_run(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=r"^[^\n]*replay-[^\n]*; restore it or delete the folder[^\n]*$"):
        loaded(tmp_path, 100, 10, [name])


@pytest.mark.parametrize("kind", strange_files.KINDS)
def test_what_is_no_file_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    (name,) = filled(100, 10).save(tmp_path, keep_from=0)
    strange_files.put(kind, tmp_path / name)
    with pytest.raises(CheckpointError, match=r"^cannot read [^\n]*; restore it or delete the folder[^\n]*$"):
        loaded(tmp_path, 100, 10, [name])


@pytest.mark.parametrize("name", ["../replay", "/etc/passwd", "replay-0-10-x.safetensors", ""])
def test_a_name_that_is_no_pieces_is_refused(name: str, tmp_path: Path) -> None:
    names = filled(100, 10).save(tmp_path, keep_from=0)
    with pytest.raises(CheckpointError, match="names no pieces"):
        loaded(tmp_path, 100, 10, [*names, name])


def test_a_temporary_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "replay.tmp").symlink_to(tmp_path / "precious")
    filled(100, 10).save(tmp_path, keep_from=0)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_full_disk_is_told_of_in_one_line(tmp_path: Path) -> None:
    buffer = filled(100, 10)
    buffer.save(tmp_path, keep_from=0)
    add(buffer, 50)
    with (
        largest_file(1_000),
        pytest.raises(CheckpointError, match=r"^cannot write to [^\n]*; make room [^\n]*$") as error,
    ):
        buffer.save(tmp_path, keep_from=10)
    assert str(tmp_path) in str(error.value)
    assert pieces(tmp_path) == [(0, 10)]
    buffer.save(tmp_path, keep_from=10)
    assert_same(loaded(tmp_path, 100, 60), buffer)
