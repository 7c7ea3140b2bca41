"""Whatever is wrong with a file, the error is one line with the file, what is wrong, and what to do."""

import gzip
import re

import pytest

from adalin.data import DataError, load, verify
from tiny_data import CIFAR_FOLDERS, TINY, archive, take_for_real, unpacked, write

PAGE = b"\n<!DOCTYPE html><html><body>Not found</body></html>" * 100
FILES = [(name, file) for name in TINY for file in TINY[name].files]
DOWNLOADS = [(name, file) for name in TINY for file in TINY[name].downloads]


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    take_for_real(monkeypatch)


def error_of(name, folder):
    with pytest.raises(DataError) as caught:
        load(name, folder)
    message = str(caught.value)
    assert "\n" not in message
    fix = f"; run `adalin data fetch {name} --data {folder}` or name another folder with --data FOLDER"
    assert message.endswith(fix)
    return message.removesuffix(fix)


def flipped(content, at=-1):
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_one_flipped_bit_is_found_and_its_file_named(tmp_path, name, file):
    path = unpacked(tmp_path, name) / file
    path.write_bytes(flipped(path.read_bytes()))
    title = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}[name]
    assert error_of(name, tmp_path) == f"{path}: the content is not {title}'s (SHA-256 differs)"


@pytest.mark.parametrize(("name", "file"), FILES)
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda content: content[:-1], " is truncated"),
        (lambda content: content + b"\0", " is longer than the official file"),
        (lambda content: b"", " is empty"),
        (lambda content: PAGE, " is a web page, not data"),
        (lambda content: b'<?xml version="1.0"?><Error>', " is a web page, not data"),
    ],
    ids=["truncated", "longer", "empty", "page", "xml"],
)
def test_a_file_of_the_wrong_length_or_kind_is_named(tmp_path, name, file, damage, problem):
    path = unpacked(tmp_path, name) / file
    path.write_bytes(damage(path.read_bytes()))
    assert error_of(name, tmp_path) == f"{path}{problem}"


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_missing_file_is_named(tmp_path, name, file):
    path = unpacked(tmp_path, name) / file
    path.unlink()
    assert error_of(name, tmp_path) == f"{path} is missing beside files that belong to it"


@pytest.mark.parametrize(("name", "file"), DOWNLOADS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_download_that_was_cut_is_named(tmp_path, name, file, share):
    write(tmp_path, TINY[name].downloads)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert error_of(name, tmp_path).startswith(f"{path} ")


@pytest.mark.parametrize(("name", "file"), DOWNLOADS)
def test_a_flipped_byte_anywhere_in_a_zipped_file_changes_nothing_or_is_an_error_that_names_it(tmp_path, name, file):
    write(tmp_path, TINY[name].downloads)
    path = tmp_path / file
    content = path.read_bytes()
    errors = 0
    for at in range(0, len(content), max(1, len(content) // 60)):
        path.write_bytes(flipped(content, at))
        try:
            assert load(name, tmp_path).sha256 == TINY[name].sha256  # a time stamp, say
        except DataError:
            errors += 1
            assert str(path) in error_of(name, tmp_path)
    assert errors > 10


def test_a_wrong_magic_number_is_shown(tmp_path):
    path = unpacked(tmp_path, "mnist") / "train-labels-idx1-ubyte"
    path.write_bytes(TINY["mnist"].files["train-images-idx3-ubyte"])
    expected = f"{path} is no such IDX file: it starts with 0x00000803, not 0x00000801"
    assert error_of("mnist", tmp_path) == expected


@pytest.mark.parametrize("at", range(4, 16))
def test_sizes_that_are_not_mnists_are_refused_before_memory_is_asked_for(tmp_path, at):
    path = unpacked(tmp_path, "mnist") / "train-images-idx3-ubyte"
    content = bytearray(path.read_bytes())
    content[at] ^= 0x80
    path.write_bytes(content)
    assert error_of("mnist", tmp_path) == f"{path} does not announce 5 x 28 x 28 bytes"


@pytest.mark.parametrize("name", CIFAR_FOLDERS)
def test_an_archive_without_one_of_the_files_is_named(tmp_path, name):
    *files, last = TINY[name].files.items()
    ((download, _),) = TINY[name].downloads.items()
    write(tmp_path, {download: archive("anything", dict(files))})
    assert error_of(name, tmp_path) == f"{tmp_path / download} lacks {last[0]}"


@pytest.mark.parametrize("name", CIFAR_FOLDERS)
def test_an_archive_with_a_wrong_file_is_named(tmp_path, name):
    files = dict(TINY[name].files)
    ((download, _),) = TINY[name].downloads.items()
    first = next(iter(files))
    write(tmp_path, {download: archive("anything", files | {first: files[first][:-1]})})
    assert error_of(name, tmp_path) == f"{first} in {tmp_path / download} is truncated"
    write(tmp_path, {download: archive("anything", files | {first: flipped(files[first])})})
    assert re.match(rf"{tmp_path / download}: the content is not CIFAR-10+'s", error_of(name, tmp_path))
    write(tmp_path, {download: gzip.compress(b"no archive" * 100)})
    assert error_of(name, tmp_path).startswith(f"{tmp_path / download} is damaged: ")


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    path = unpacked(tmp_path, "mnist") / "t10k-labels-idx1-ubyte"

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(path), "open", refuse)
    assert error_of("mnist", tmp_path).endswith("train-images-idx3-ubyte cannot be read: Permission denied")


def test_verify_finds_the_same_damage_as_load(tmp_path):
    path = unpacked(tmp_path, "cifar10") / "data_batch_3.bin"
    path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(DataError, match=r"data_batch_3\.bin: the content is not CIFAR-10's"):
        verify("cifar10", tmp_path)
