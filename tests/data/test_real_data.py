"""The official files, where somebody has them."""

import subprocess
import sys

import pytest
import torch

from adalin.data import load, where

pytestmark = pytest.mark.skipif(
    where().chosen_by != "$ADALIN_DATA" or len(where().found) < 3,
    reason="ADALIN_DATA names no folder with the real data",
)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "first_labels"),
    [
        ("mnist", (1, 28, 28), 10, [5, 0, 4, 1, 9]),
        ("cifar10", (3, 32, 32), 10, [6, 9, 9, 4, 1]),
        ("cifar100", (3, 32, 32), 100, [19, 29, 0, 11, 1]),
    ],
)
def test_the_official_files_are_loaded(name, shape, classes, first_labels):
    dataset = load(name)
    assert not dataset.bundled
    train = 60_000 if name == "mnist" else 50_000
    assert dataset.train_images.shape == (train, *shape)
    assert dataset.test_images.shape == (10_000, *shape)
    assert dataset.train_labels[:5].tolist() == first_labels
    assert dataset.classes == classes == len(dataset.train_labels.unique())
    if name != "mnist":
        assert torch.bincount(dataset.train_labels).tolist() == [train // classes] * classes


def test_loading_takes_little_memory_beyond_the_arrays():
    program = (
        "import resource, sys; from adalin.data import load;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024;"
        "before = peak(); dataset = load('cifar10'); print(peak() - before)"
    )
    megabytes = float(subprocess.check_output([sys.executable, "-c", program], text=True))
    assert megabytes < 184 + 50
