"""A checkpoint comes back to the bit or is refused, whatever happens to the process, the disk and the files."""

import errno
import hashlib
import json
import math
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from adalin.runs import _checkpoint
from adalin.runs._checkpoint import Checkpoint, CheckpointError, read_checkpoint, read_header, read_newest
from failing_disk import folder_to_protect, largest_file, no_space, tmpfs

TENSORS = {
    "float32": torch.tensor([0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45]),
    "float64": torch.tensor([[math.pi, 5e-324], [1e308, -1 / 3]], dtype=torch.float64),
    "bfloat16": torch.tensor([1.0, 3e38, -0.0], dtype=torch.bfloat16),
    "float16": torch.tensor([1.0, 6e-8], dtype=torch.float16),
    "int64": torch.tensor([2**63 - 1, -(2**63)]),
    "uint8": torch.arange(256, dtype=torch.uint8),
    "bool": torch.tensor([True, False]),
    "empty": torch.empty(0, 3),
    "scalar": torch.tensor(1.5),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "parameter": torch.nn.Parameter(torch.ones(2)),
}
FLOATS = [0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, 2**53 + 1.0, math.inf, -math.inf]


RUN, ROWS = "a" * 64, "b" * 64


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    return _checkpoint.save(folder, checkpoint, run=RUN, rows=ROWS)


def load(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    _checkpoint.forget_written(folder)
    found = read_newest(folder, read_checkpoint, warn)
    return None if found is None else found[1]


def step(number: int, size: int = 4) -> Checkpoint:
    return Checkpoint({"weight": torch.full((size,), float(number))}, {"step": number})


def loaded_step(folder: Path) -> int:
    """The step of the checkpoint, which must be the same in all its parts; every refusal is an error."""
    checkpoint = load(folder, warn=pytest.fail)
    assert checkpoint is not None
    assert bool((checkpoint.tensors["weight"] == checkpoint.position["step"]).all())
    return checkpoint.position["step"]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint*"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def same_bits(a: Tensor, b: Tensor) -> bool:
    raw = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(*raw)


def test_tensors_come_back_to_the_bit(tmp_path: Path) -> None:
    save(tmp_path, Checkpoint(TENSORS, {}))
    loaded = load(tmp_path, warn=pytest.fail)
    assert loaded is not None
    assert loaded.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert same_bits(loaded.tensors[name], tensor), name


def test_tensors_that_share_memory_are_saved_one_by_one(tmp_path: Path) -> None:
    weight = torch.arange(4.0)
    save(tmp_path, Checkpoint({"a": weight, "b": weight, "c": weight[1:]}, {}))
    loaded = load(tmp_path, warn=pytest.fail)
    assert loaded is not None
    loaded.tensors["a"].zero_()
    assert loaded.tensors["b"].tolist() == [0, 1, 2, 3]
    assert loaded.tensors["c"].tolist() == [1, 2, 3]


def test_position_comes_back_to_the_bit(tmp_path: Path) -> None:
    position = {"task": 3, "big": 2**80, "nested": {"sums": FLOATS, "none": None}, "text": 'ü "quoted" \n'}
    save(tmp_path, Checkpoint({}, {**position, "nan": math.nan}))
    loaded = load(tmp_path, warn=pytest.fail)
    assert loaded is not None
    assert math.isnan(loaded.position.pop("nan"))
    assert loaded.position == position
    assert [x.hex() for x in loaded.position["nested"]["sums"]] == [x.hex() for x in FLOATS]


def test_a_file_is_a_safetensors_file_named_by_counter_and_the_hash_of_its_header(tmp_path: Path) -> None:
    path = save(tmp_path, step(7))
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    assert path.name == f"checkpoint-00000001-{hashlib.sha256(data[:start]).hexdigest()}.safetensors"
    assert json.loads(data[8:start])["__metadata__"]["tensors"] == hashlib.sha256(data[start:]).hexdigest()
    assert safetensors.torch.load_file(path)["weight"].tolist() == [7.0] * 4


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    backwards = dict(reversed(TENSORS.items()))
    first, second = (save(tmp_path, Checkpoint(tensors, {"step": 1})) for tensors in (TENSORS, backwards))
    assert first.read_bytes() == second.read_bytes()


def test_the_last_two_are_kept_and_the_newest_is_loaded(tmp_path: Path) -> None:
    written = [save(tmp_path, step(number)) for number in range(5)]
    assert files(tmp_path) == written[-2:]
    assert loaded_step(tmp_path) == 4


def test_counters_have_no_end(tmp_path: Path) -> None:
    first = save(tmp_path, step(1))
    first.rename(tmp_path / first.name.replace("00000001", "99999999"))
    for number in (2, 3):
        save(tmp_path, step(number))
        assert loaded_step(tmp_path) == number


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert load(tmp_path, warn=pytest.fail) is None
    assert load(tmp_path / "missing", warn=pytest.fail) is None


def refused_newest(folder: Path, newest: Path) -> bool:
    """Is the newest file refused, with one line that names it, and the one before it used?"""
    warnings: list[str] = []
    checkpoint = load(folder, warnings.append)
    assert checkpoint is not None
    if checkpoint.position["step"] == 2:
        return False
    assert checkpoint.position["step"] == 1
    assert checkpoint.tensors["weight"].tolist() == [1.0] * 4
    (warning,) = warnings
    assert str(newest) in warning
    assert "\n" not in warning
    return True


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    save(tmp_path, step(1))
    newest = save(tmp_path, step(2))
    intact = newest.read_bytes()
    start = 8 + int.from_bytes(intact[:8], "little")
    for byte in range(len(intact)):
        for bit in range(8):
            damaged = bytearray(intact)
            damaged[byte] ^= 1 << bit
            newest.write_bytes(damaged)
            assert refused_newest(tmp_path, newest), (byte, bit)
            if byte < start:  # without its tensors it is refused likewise
                with pytest.raises(CheckpointError, match="is refused"):
                    read_header(newest)
    newest.write_bytes(intact)
    assert not refused_newest(tmp_path, newest)


def test_every_truncation_and_an_extra_byte_are_refused(tmp_path: Path) -> None:
    save(tmp_path, step(1))
    newest = save(tmp_path, step(2))
    intact = newest.read_bytes()
    for length in range(len(intact)):
        newest.write_bytes(intact[:length])
        assert refused_newest(tmp_path, newest), length
        with pytest.raises(CheckpointError, match="is refused"):
            read_header(newest)
    newest.write_bytes(intact + b"\0")
    assert refused_newest(tmp_path, newest)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    save(tmp_path, step(1))
    data = pickle.dumps(Payload())
    newest = tmp_path / f"checkpoint-00000002-{hashlib.sha256(data).hexdigest()}.safetensors"
    newest.write_bytes(data)
    assert refused_newest(tmp_path, newest)
    torch.save({"weight": torch.ones(2)}, newest)
    data = newest.read_bytes()
    newest = newest.rename(tmp_path / f"checkpoint-00000002-{hashlib.sha256(data).hexdigest()}.safetensors")
    assert refused_newest(tmp_path, newest)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("header", [{}, {"__metadata__": {}}, {"__metadata__": {"position": "{"}}])
def test_somebody_elses_safetensors_file_is_refused(tmp_path: Path, header: dict[str, object]) -> None:
    save(tmp_path, step(1))
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text
    newest = tmp_path / f"checkpoint-00000002-{hashlib.sha256(data).hexdigest()}.safetensors"
    newest.write_bytes(data)
    safetensors.torch.load(data)
    assert refused_newest(tmp_path, newest)


def test_all_damaged_is_an_error(tmp_path: Path) -> None:
    for path in [save(tmp_path, step(1)), save(tmp_path, step(2))]:
        flip(path)
    warnings: list[str] = []
    with pytest.raises(CheckpointError, match=r"all checkpoints in .* are damaged; delete the folder"):
        load(tmp_path, warnings.append)
    assert len(warnings) == 2


def test_a_folder_that_cannot_be_read_is_not_one_without_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"^cannot read .*file: Not a directory$"):
        load(tmp_path / "file", pytest.fail)
    assert load(tmp_path / "nothing", pytest.fail) is None


@pytest.mark.parametrize("noticed_by", ["its time", "load"])
def test_a_damaged_file_does_not_count_as_one_of_the_two(tmp_path: Path, noticed_by: str) -> None:
    good, damaged = save(tmp_path, step(1)), save(tmp_path, step(2))
    time = damaged.stat().st_mtime_ns
    flip(damaged)
    if noticed_by == "load":
        os.utime(damaged, ns=(time, time))
        assert refused_newest(tmp_path, damaged)
    else:
        os.utime(damaged, ns=(time + 1, time + 1))
    new = save(tmp_path, step(3))
    assert files(tmp_path) == [good, new]
    assert "-00000003-" in new.name
    assert loaded_step(tmp_path) == 3


def test_saving_does_not_read_back_what_it_wrote_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, step(1))
    monkeypatch.setattr(_checkpoint, "read_checkpoint", lambda path: pytest.fail(f"read {path}"))
    second, third = save(tmp_path, step(2)), save(tmp_path, step(3))
    assert files(tmp_path) == [second, third]


def test_what_a_killed_process_left_is_ignored_and_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.tmp").write_bytes(b"half a checkpoint")
    assert load(tmp_path, warn=pytest.fail) is None
    path = save(tmp_path, step(1))
    assert files(tmp_path) == [path]


# Forks a process that saves steps without end, kills it as told by a line of input (after some seconds, or at the n-th
# call of a function), and prints the last step that was reported as saved before.
KILLED_SAVER = """
import os, signal, sys, time
from pathlib import Path
import torch
from adalin.runs._checkpoint import Checkpoint, read_checkpoint, read_newest, save

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

torch.set_num_threads(1)
folder = Path(sys.argv[1])
for line in sys.stdin:
    when, number = line.split()
    reports, report = os.pipe()
    child = os.fork()
    if child == 0:
        found = read_newest(folder, read_checkpoint, print)
        step = 0 if found is None else found[1].position["step"]
        while True:
            step += 1
            checkpoint = Checkpoint({"weight": torch.full((300_000,), float(step))}, {"step": step})
            save(folder, checkpoint, run="a" * 64, rows="b" * 64)
            os.write(report, b"%d\\n" % step)
            if when != "after":
                owner = os if when == "fsync" else Path
                original, left = getattr(owner, when), int(number)
                def countdown(*args, **kwargs):
                    global left
                    left -= 1
                    return original(*args, **kwargs) if left else die()
                setattr(owner, when, countdown)
                when = "after"
    os.close(report)
    if when == "after":
        time.sleep(float(number))
        os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with os.fdopen(reports) as file:
        print(([0] + [int(line) for line in file])[-1], flush=True)
"""


def test_a_process_killed_while_it_saves_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    rng = random.Random(0)
    # Inside a save: before the file is complete, before it has its name, before the name is safe, before old ones go.
    moments = ["fsync 1", "replace 1", "fsync 2", "unlink 1", "fsync 3", "replace 2", "fsync 4", "unlink 2"]
    moments += [f"after {rng.uniform(0.02, 0.2)}" for _ in range(25)]
    command = [sys.executable, "-c", KILLED_SAVER, str(tmp_path)]
    newest = unfinished = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for moment in moments:
            process.stdin.write(moment + "\n")
            process.stdin.flush()
            reported = int(process.stdout.readline())
            if files(tmp_path):
                newest, before = loaded_step(tmp_path), newest
                assert newest >= max(reported, before), moment
            else:
                assert reported == newest == 0, moment
            unfinished += (tmp_path / "checkpoint.tmp").exists()
    assert process.returncode == 0
    assert newest > len(moments)
    assert unfinished >= 4, "the kills came too late to test anything"


def assert_save_fails(folder: Path, message: str, size: int = 4) -> None:
    """The save gives one line, and leaves everything as it was."""
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(CheckpointError, match=message) as error:
        save(folder, step(3, size=size))
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert loaded_step(folder) == 2


@pytest.fixture
def two_saved(tmp_path: Path) -> Path:
    save(tmp_path, step(1))
    save(tmp_path, step(2))
    return tmp_path


def test_a_file_that_cannot_grow_leaves_the_older_checkpoints(two_saved: Path) -> None:
    with largest_file(8192):
        assert_save_fails(two_saved, os.strerror(errno.EFBIG), size=100_000)
    save(two_saved, step(4))
    assert loaded_step(two_saved) == 4


@pytest.mark.parametrize("size", [4, 100_000])
def test_a_full_disk_leaves_the_older_checkpoints(size: int) -> None:
    with tmpfs("256k") as folder:
        save(folder, step(1))
        save(folder, step(2))
        if size == 4:  # not even a small one
            (folder / "something else").write_bytes(bytes(256 * 1024 - 2 * 4096))
        assert_save_fails(folder, os.strerror(errno.ENOSPC), size=size)


def test_a_disk_that_is_found_full_late_leaves_the_older_checkpoints(
    two_saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    assert_save_fails(two_saved, "No space left on device; make room or permit writing there")


def test_a_read_only_folder_is_one_line() -> None:
    with folder_to_protect() as (folder, read_only):
        save(folder, step(1))
        save(folder, step(2))
        with read_only:
            assert_save_fails(folder, os.strerror(errno.EACCES))
        save(folder, step(4))


def test_a_folder_that_vanished_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot write to .*: No such file or directory"):
        save(tmp_path / "missing", step(1))
