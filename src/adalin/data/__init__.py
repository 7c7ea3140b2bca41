"""The images that streams are made of: found on disk, checked by SHA-256, and loaded as tensors."""

from adalin.data._augment import augment
from adalin.data._catalogue import datasets
from adalin.data._dataset import DataError, Dataset
from adalin.data._digits import DIGITS_SHA256
from adalin.data._fetch import fetch
from adalin.data._load import CheckedFiles, load, verify
from adalin.data._where import BUNDLED, Location, where

__all__ = [
    "BUNDLED",
    "DIGITS_SHA256",
    "CheckedFiles",
    "DataError",
    "Dataset",
    "Location",
    "augment",
    "datasets",
    "fetch",
    "load",
    "verify",
    "where",
]
