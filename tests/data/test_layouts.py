"""Every layout that the files come in gives the same tensors."""

import gzip

import numpy as np
import pytest
import torch

from adalin.data import DataError, load, verify
from tiny_data import CIFAR_FOLDERS, TINY, take_for_real, unpacked, write

MNIST = TINY["mnist"].files


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    take_for_real(monkeypatch)


def assert_is_tiny(dataset, name):
    tensors = dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels
    for tensor, part in zip(tensors, TINY[name].parts, strict=True):
        assert np.array_equal(tensor.numpy(), part)
    assert [tensor.dtype for tensor in tensors] == [torch.uint8, torch.int64] * 2
    assert (dataset.name, dataset.bundled, dataset.sha256) == (name, False, TINY[name].sha256)


@pytest.mark.parametrize("place", ["mnist", ".", "MNIST/raw"])
@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_is_read_from_each_place_under_each_name(tmp_path, place, dotted, zipped):
    files = {(name.replace("-idx", ".idx") if dotted else name): content for name, content in MNIST.items()}
    if zipped:
        files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    write(tmp_path / place, files)
    assert_is_tiny(load("mnist", tmp_path), "mnist")


@pytest.mark.parametrize("name", CIFAR_FOLDERS)
def test_cifar_is_read_from_its_folder_from_inside_it_and_from_the_archive(tmp_path, name):
    inside = unpacked(tmp_path / "files", name)
    write(tmp_path / "archive", TINY[name].downloads)
    for folder in (tmp_path / "files", inside, tmp_path / "archive"):
        assert_is_tiny(load(name, folder), name)


def test_a_file_is_unzipped_by_its_content_whatever_its_name(tmp_path):
    write(tmp_path, {name: gzip.compress(content) for name, content in MNIST.items()})
    assert_is_tiny(load("mnist", tmp_path), "mnist")
    write(tmp_path / "mnist", {f"{name}.gz": content for name, content in MNIST.items()})
    assert_is_tiny(load("mnist", tmp_path), "mnist")


def test_a_complete_copy_is_preferred_to_an_incomplete_one(tmp_path):
    write(tmp_path / "mnist", dict(list(MNIST.items())[:2]))
    write(tmp_path / "MNIST/raw", MNIST)
    assert verify("mnist", tmp_path).folder == tmp_path / "MNIST/raw"


@pytest.mark.parametrize("name", CIFAR_FOLDERS)
def test_files_larger_than_a_chunk_are_read_whole(tmp_path, monkeypatch, name):
    monkeypatch.setattr("adalin.data._cifar.CHUNK", 2)  # 5 and 3 records: the last chunk is not full
    unpacked(tmp_path, name)
    assert_is_tiny(load(name, tmp_path), name)


@pytest.mark.parametrize("pickles", ["cifar-10-batches-py/data_batch_1", "cifar-10-python.tar.gz"])
def test_pickles_are_refused(tmp_path, pickles):
    write(tmp_path, {pickles: b"\x80\x02}q"})
    with pytest.raises(DataError, match=r"cifar-10-\S+ holds pickles.* run `adalin data fetch cifar10 --data"):
        load("cifar10", tmp_path)


def test_verify_names_the_files_their_folder_and_the_hash(tmp_path):
    unpacked(tmp_path, "cifar100")
    report = verify("cifar100", tmp_path)
    folder = tmp_path / "cifar-100-binary"
    assert (report.folder, report.files) == (folder, (folder / "train.bin", folder / "test.bin"))
    sha256 = TINY["cifar100"].sha256
    assert str(report) == f"CIFAR-100: train.bin, test.bin in {folder}, content right (SHA-256 {sha256})"
